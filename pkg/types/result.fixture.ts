import fc from "fast-check"
import { formatIp, type IpConfig, type Result, type Route, unmapped } from "./mod.ts"

// Arbitrary results for tests: everything that the types allow, as returned by decoding, that is, without the empty and
// zero values that encoding omits.

export const anyIp = fc
  .oneof(fc.uint8Array({ minLength: 4, maxLength: 4 }), fc.uint8Array({ minLength: 16, maxLength: 16 }))
  .map(unmapped)
  .map(formatIp)

export const anyCidr = fc.tuple(anyIp, fc.nat(32)).map(([ip, prefix]) => `${ip}/${prefix}`)

const text = fc.string({ minLength: 1 })
const positive = fc.integer({ min: 1, max: 0xffff_ffff })
const texts = fc.array(text, { minLength: 1, maxLength: 3 })
const some = { requiredKeys: [] }

export const anyRoute: fc.Arbitrary<Route> = fc.record(
  { dst: anyCidr, gw: anyIp, mtu: positive, advmss: positive, priority: positive, table: fc.nat(), scope: fc.nat(255) },
  { requiredKeys: ["dst"] },
)

export const anyIpConfig: fc.Arbitrary<IpConfig> = fc.record(
  { address: anyCidr, gateway: anyIp, interface: fc.integer({ min: -1, max: 5 }) },
  { requiredKeys: ["address"] },
)

export const anyResult: fc.Arbitrary<Result> = fc.record({
  interfaces: fc.array(
    fc.record(
      { name: fc.string(), mac: text, mtu: positive, sandbox: text, socketPath: text, pciID: text },
      { requiredKeys: ["name"] },
    ),
  ),
  ips: fc.array(anyIpConfig),
  routes: fc.array(anyRoute),
  dns: fc.record({ nameservers: texts, domain: text, search: texts, options: texts }, some),
})
