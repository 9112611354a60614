// Sets a key, reads it, sees it change, and writes under a lock. `interop/run go` runs it.
package main

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/Azure/iot-operations-sdks/go/mqtt"
	"github.com/Azure/iot-operations-sdks/go/protocol"
	"github.com/Azure/iot-operations-sdks/go/services/leasedlock"
	"github.com/Azure/iot-operations-sdks/go/services/statestore"
)

func main() {
	// AIO_BROKER_HOSTNAME, AIO_BROKER_TCP_PORT, AIO_MQTT_USE_TLS and AIO_MQTT_CLIENT_ID say where, and as whom.
	session, err := mqtt.NewSessionClientFromEnv()
	must(err)
	app, err := protocol.NewApplication()
	must(err)
	store, err := statestore.New[string, string](app, session)
	must(err)
	must(session.Start())
	defer func() { must(session.Stop()) }()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	must(store.Start(ctx))
	defer store.Close()

	set, err := store.Set(ctx, "door", "closed")
	must(err)
	got, err := store.Get(ctx, "door")
	must(err)
	fmt.Printf("door is %s since %s\n", got.Value, set.Version)

	changes, done := store.Notify("door")
	defer done()
	must(store.KeyNotify(ctx, "door"))
	_, err = store.Set(ctx, "door", "open")
	must(err)
	fmt.Printf("door is now %s\n", (<-changes).Value)

	// The store refuses a write with an older token than the last one.
	lock := leasedlock.NewLock(store, "deploy")
	must(lock.Lock(ctx, 10*time.Second))
	token, err := lock.Token(ctx)
	must(err)
	_, err = store.Set(ctx, "version", "2", statestore.WithFencingToken(token))
	must(err)
	must(lock.Unlock(ctx))
	fmt.Println("version is written")
}

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
