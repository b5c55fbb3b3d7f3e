import { expect, test } from "bun:test"
import type { Options6 } from "./options6.ts"
import * as captured from "./testing/captured.ts"
import { answer6, association6, config6, ip, TestClient } from "./testing/link.ts"

const [advertise, reply] = [2, 7]
const server: Options6 = [[23, ip("2001:db8::99")]]
const domain: Options6 = [[24, Uint8Array.of(1, 0x61, 1, 0x62, 0)]]
const ofRouter = { nameservers: ["2001:db8::53"], search: ["six.example"] }

test.each<[string, Options6, object]>([
  ["both", [...server, ...domain], { nameservers: ["2001:db8::99"], search: ["a.b"] }],
  ["name servers alone", server, { ...ofRouter, nameservers: ["2001:db8::99"] }],
  ["a search list alone", domain, { ...ofRouter, search: ["a.b"] }],
  ["neither", [], ofRouter],
])("names of the server go before those of the router, which has both: the server has %s", (_, options, names) => {
  const client = new TestClient(config6)
  client.start()
  client.frame(captured.routerAdvertisement)
  client.frame(answer6(client.state, advertise, [association6({})]))
  client.frame(answer6(client.state, reply, [association6({}), ...options]))
  expect(client.state.lease).toMatchObject(names)
})
