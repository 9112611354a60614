// A subscriber of MQTT.js with a durable session, that goes from node to node without a word:
//
//     node peer.mjs FILE HOST:PORT ...
//
// FILE is there when it is subscribed. A line for each message: its topic and its payload; and `lost`, when its session was.

import { appendFileSync } from 'node:fs'
import mqtt from '../js/node_modules/mqtt/build/index.js'

const [file, ...nodes] = process.argv.slice(2)
const servers = nodes.map(node => ({ host: node.split(':')[0], port: Number(node.split(':')[1]), protocol: 'mqtt' }))
const client = mqtt.connect({
  servers,
  clientId: 'mqttjs',
  protocolVersion: 5,
  clean: false,
  keepalive: 5,
  connectTimeout: 5000,
  reconnectPeriod: 100,
  resubscribe: false,
  properties: { sessionExpiryInterval: 3600 }
})

let isSubscribed = false
let hadSession = false
client.on('connect', connack => {
  if (hadSession && !connack.sessionPresent) appendFileSync(file, 'lost\n')
  hadSession = true
  if (!isSubscribed) {
    client.subscribe(['n1/#', 'n2/#'], { qos: 2 }, (error, granted) => {
      isSubscribed = !error && granted.every(grant => grant.qos < 128)
      if (isSubscribed) appendFileSync(file, 'subscribed\n')
    })
  }
  // To the next node.
  setTimeout(() => client.stream.destroy(), 2000 + Math.random() * 6000)
})
client.on('message', (topic, payload) => appendFileSync(file, `${topic} ${payload}\n`))
client.on('error', () => {})
