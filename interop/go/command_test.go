package interop

import (
	"context"
	stderr "errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/Azure/iot-operations-sdks/go/mqtt"
	"github.com/Azure/iot-operations-sdks/go/protocol"
	"github.com/Azure/iot-operations-sdks/go/protocol/errors"
	"github.com/stretchr/testify/require"
)

var text = protocol.JSON[string]{}

type (
	executorHandler = protocol.CommandHandler[string, string]
	invoker         = protocol.CommandInvoker[string, string]
)

// execute starts an executor of a command, over a session.
func execute(t *testing.T, client *mqtt.SessionClient, topic string, handler executorHandler, opts ...protocol.CommandExecutorOption) {
	executor, err := protocol.NewCommandExecutor(app, client, text, text, topic, handler, opts...)
	require.NoError(t, err)
	require.NoError(t, executor.Start(within(t)))
}

// invoke makes an invoker of a command, over a session.
func invoke(t *testing.T, client *mqtt.SessionClient, topic string, opts ...protocol.CommandInvokerOption) *invoker {
	made, err := protocol.NewCommandInvoker(app, client, text, text, topic, opts...)
	require.NoError(t, err)
	require.NoError(t, made.Start(within(t)))
	return made
}

func echo(_ context.Context, request *protocol.CommandRequest[string]) (*protocol.CommandResponse[string], error) {
	return protocol.Respond(request.Payload + " from " + request.ClientID)
}

func TestACommandIsInvokedAndAnswered(t *testing.T) {
	ctx, address := within(t), shared(t)
	client, server := session(t, address), session(t, address)
	execute(t, server, "commands/{ex:token}/run", func(_ context.Context, request *protocol.CommandRequest[string]) (*protocol.CommandResponse[string], error) {
		return protocol.Respond(request.Payload+request.ClientID+request.CorrelationData,
			protocol.WithMetadata(request.TopicTokens))
	}, protocol.WithTopicNamespace("ns"))
	command := invoke(t, client, "commands/{ex:token}/run", protocol.WithResponseTopicSuffix("response/{executorId}"),
		protocol.WithTopicNamespace("ns"), protocol.WithTopicTokens{"token": "test"}, protocol.WithTopicTokenNamespace("ex:"))
	answer, err := command.Invoke(ctx, "value", protocol.WithTopicTokens{"executorId": server.ID()})
	require.NoError(t, err)
	require.Equal(t, "value"+client.ID()+answer.CorrelationData, answer.Payload)
	require.Equal(t, "test", answer.Metadata["ex:token"])
	high, marked := answer.Metadata["$high_priority"]
	require.True(t, marked, "what the SDK marks arrives marked")
	require.Empty(t, high)
}

func TestErrorsOfACommandArrive(t *testing.T) {
	ctx, address, topic := within(t), shared(t), key(t)
	execute(t, session(t, address), topic, func(context.Context, *protocol.CommandRequest[string]) (*protocol.CommandResponse[string], error) {
		return nil, stderr.New("not today")
	})
	_, err := invoke(t, session(t, address), topic, protocol.WithResponseTopicSuffix("response")).Invoke(ctx, "x")
	var remote *errors.Remote
	require.ErrorAs(t, err, &remote)
	require.Equal(t, "not today", remote.Message)
}

func TestACommandThatNobodyExecutesTimesOut(t *testing.T) {
	command := invoke(t, session(t, shared(t)), key(t), protocol.WithResponseTopicSuffix("response"))
	_, err := command.Invoke(within(t), "x", protocol.WithTimeout(time.Second))
	var failed *errors.Client
	require.ErrorAs(t, err, &failed)
	require.IsType(t, errors.Timeout{}, failed.Kind)
}

// Executors of one share divide the work: each request is executed once, and all of one client's, which carry its partition, by the same one.
func TestExecutorsShareTheirRequests(t *testing.T) {
	ctx, address, topic := within(t), shared(t), key(t)
	executed := make([]atomic.Int64, 2)
	for number := range executed {
		execute(t, session(t, address), topic, func(_ context.Context, request *protocol.CommandRequest[string]) (*protocol.CommandResponse[string], error) {
			executed[number].Add(1)
			return protocol.Respond(fmt.Sprint(number))
		}, protocol.WithShareName("workers"))
	}
	for range 6 {
		command := invoke(t, session(t, address), topic, protocol.WithResponseTopicSuffix("response"))
		first, err := command.Invoke(ctx, "x")
		require.NoError(t, err)
		for range 4 {
			answer, err := command.Invoke(ctx, "x")
			require.NoError(t, err)
			require.Equal(t, first.Payload, answer.Payload)
		}
	}
	require.Equal(t, int64(30), executed[0].Load()+executed[1].Load())
}

// The handler asks the state store over the session that the request came by, while another request waits.
func TestAnExecutorUsesTheStateStore(t *testing.T) {
	ctx, address, topic, name := within(t), shared(t), key(t), key(t)
	server := session(t, address)
	kept := storeOver(t, server)
	execute(t, server, topic, func(ctx context.Context, request *protocol.CommandRequest[string]) (*protocol.CommandResponse[string], error) {
		if _, err := kept.Set(ctx, name, request.Payload); err != nil {
			return nil, err
		}
		return protocol.Respond(request.Payload)
	}, protocol.WithConcurrency(1))
	command := invoke(t, session(t, address), topic, protocol.WithResponseTopicSuffix("response"))
	var all sync.WaitGroup
	for number := range 10 {
		all.Go(func() {
			value := fmt.Sprint(number)
			answer, err := command.Invoke(ctx, value)
			if err != nil {
				t.Error(err)
			} else if answer.Payload != value {
				t.Errorf("%q instead of %q", answer.Payload, value)
			}
		})
	}
	all.Wait()
}
