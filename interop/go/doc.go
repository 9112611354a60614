// Package interop drives a running statehold with the official SDK for Go as its modules come from the module proxy, unchanged:
// the MQTT session client, commands and telemetry, the state store, leases and locks. Its tests are what the SDK's own integration tests
// and sources expect of a broker, and what its reconnects expect while connections and nodes are lost.
//
// `interop/run go` runs it. STATEHOLD_BIN names the binary.
package interop
