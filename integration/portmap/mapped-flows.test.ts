import { describe, expect, test } from "bun:test"
import { askEcho, outside, succeed } from "../lab/mod.ts"
import { hostAddresses } from "./portmap-lab.ts"
import { captured, ServicesLab, service } from "./services-lab.ts"

const own = { hostPort: 9999, containerPort: 80, protocol: "tcp" } as const

describe.each(captured)(
  "a container that maps a port, and that a service leads to, with kube-proxy in mode %s",
  (mode) => {
    // Another pod connects to the ClusterIP. kube-proxy does not masquerade such connections within the cluster.
    test.each([
      { what: "by default", keys: {} },
      { what: "with masqAll", keys: { masqAll: true } },
    ])(
      "sees a neighbor's own address through the service, and the host's through its mapping, $what [S153]",
      async ({ keys }) => {
        await using services = await ServicesLab.create()
        const { endpoint, other } = services
        await services.loadCaptured(mode)
        await succeed(endpoint.map([own], keys))
        for (const [at, address] of service.clusterIps.entries()) {
          const { from } = await askEcho(other.namespace, { transport: "tcp", address, port: service.port })
          expect(from.address).toBe(at === 0 ? other.ip : other.ip6)
        }
        for (const [address, gateway] of [
          [hostAddresses.ip, hostAddresses.gateway],
          [hostAddresses.ip6, hostAddresses.gateway6],
        ] as const) {
          const { from } = await askEcho(other.namespace, { transport: "tcp", address, port: own.hostPort })
          expect(from.address).toBe(gateway)
        }
      },
    )
  },
)

test("masqAll leaves alone what another program translates to the container: it sees the client's address", async () => {
  await using services = await ServicesLab.create()
  const { lab, endpoint } = services
  // Translated without masquerading, as with externalTrafficPolicy Local.
  const chain = "type nat hook prerouting priority -100"
  const rules = `table ip site { chain c { ${chain}; tcp dport 30080 dnat to ${endpoint.ip}:80; }\n}
table ip6 site { chain c { ${chain}; tcp dport 30080 dnat to [${endpoint.ip6}]:80; }\n}\n`
  await lab.host.exec("nft", ["-f", "-"], { input: rules })
  await lab.outside.exec("ip", ["route", "add", "10.22.0.0/16", "via", hostAddresses.ip])
  await lab.outside.exec("ip", ["-6", "route", "add", "fd00:22::/64", "via", hostAddresses.ip6])
  await succeed(endpoint.map([own], { masqAll: true }))
  const seen = async (address: string, port: number) =>
    (await askEcho(lab.outside, { transport: "tcp", address, port })).from.address
  expect(await seen(hostAddresses.ip, 30080)).toBe(outside.ip)
  expect(await seen(hostAddresses.ip6, 30080)).toBe(outside.ip6)
  expect(await seen(hostAddresses.ip, own.hostPort)).toBe(hostAddresses.gateway)
  expect(await seen(hostAddresses.ip6, own.hostPort)).toBe(hostAddresses.gateway6)
})
