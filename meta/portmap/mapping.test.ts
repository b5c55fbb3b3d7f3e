import { expect, test } from "bun:test"
import { AF_INET, AF_INET6, type Interface, type Result } from "../../pkg/types/mod.ts"
import { type Mapping, mappedAddresses } from "./mapping.ts"

const web: Mapping = { protocol: "tcp", hostPort: 8080, containerPort: 80, family: undefined, hostIp: undefined }
const inside: Interface = { name: "eth0", mac: "", sandbox: "/run/netns/x" }

function addresses(interfaces: Interface[], ...ips: Result["ips"]) {
  const result = { interfaces, ips, routes: [], dns: {} }
  return mappedAddresses(result, "eth0", [web]).map(({ address }) => `${address.ip.join(".")}/${address.prefix}`)
}

test("mappings go to the first address of each family", () => {
  const result = {
    interfaces: [inside],
    ips: [{ address: "10.1.0.2/16" }, { address: "10.1.0.3/16" }, { address: "fd00::2/64" }],
    routes: [],
    dns: {},
  }
  const mapped = mappedAddresses(result, "eth0", [web])
  expect(mapped.map(({ family, address }) => [family, address.prefix, address.ip[3]])).toEqual([
    [AF_INET, 16, 2],
    [AF_INET6, 64, 0],
  ])
})

test("an address of another interface is passed over, one of no interface is not", () => {
  const other: Interface = { name: "eth0", mac: "" } // an interface of the host
  expect(
    addresses([other, inside], { address: "10.1.0.1/16", interface: 0 }, { address: "10.1.0.2/16", interface: 1 }),
  ).toEqual(["10.1.0.2/16"])
  expect(addresses([{ ...inside, name: "net1" }], { address: "10.1.0.1/16", interface: 0 })).toEqual([])
  expect(addresses([], { address: "10.1.0.1/16", interface: 7 })).toEqual(["10.1.0.1/16"])
  expect(addresses([])).toEqual([])
})

test("#119 an address with the interface index -1 is one of no interface", () => {
  expect(addresses([inside], { address: "10.1.0.2/16", interface: -1 })).toEqual(["10.1.0.2/16"])
})

test("a mapping of one family is for that one, and the same port counts once", () => {
  const result = { interfaces: [], ips: [{ address: "10.1.0.2/16" }, { address: "fd00::2/64" }], routes: [], dns: {} }
  const ipv6: Mapping = { ...web, hostPort: 53, family: AF_INET6 }
  const mapped = mappedAddresses(result, "eth0", [web, { ...web, family: AF_INET }, ipv6])
  expect(mapped.map(({ family, mappings }) => [family, mappings.map(({ hostPort }) => hostPort)])).toEqual([
    [AF_INET, [8080]],
    [AF_INET6, [8080, 53]],
  ])
  const ipv4Only = { ...result, ips: [{ address: "10.1.0.2/16" }] }
  expect(mappedAddresses(ipv4Only, "eth0", [ipv6])).toEqual([])
})
