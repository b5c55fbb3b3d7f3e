import { describe, expect, test } from "bun:test"
import { parseAgentConfig } from "./config.ts"

const directory = { type: "directory", path: "/srv/cni" }
const parse = (keys: object) => parseAgentConfig(JSON.stringify({ store: directory, ...keys }))
const refusal = (keys: object) => {
  try {
    parse(keys)
  } catch (error) {
    const { message, details } = error as { message: string; details?: string }
    return details === undefined ? message : `${message}; ${details}`
  }
  return expect.unreachable()
}

test("a store is enough: all else has a default", () => {
  expect(parse({})).toEqual({
    store: { type: "directory", path: "/srv/cni" },
    poolDir: "/var/lib/cni/pools",
    dataDir: "/var/lib/cni/networks",
    socket: "/run/cni-agent/agent.sock",
    http: "127.0.0.1:9817",
    log: "text",
  })
})

test("every key is read", () => {
  const given = {
    store: {
      type: "etcd",
      endpoints: ["https://10.0.0.1:2379", "https://[fd00::1]:2379/"],
      prefix: "/lab/",
      tls: { ca: "/a", certificate: "/b", key: "/c" },
      username: "cni",
      passwordFile: "/d",
    },
    node: "node-1.example",
    poolDir: "/p",
    dataDir: "/n",
    socket: "/s",
    http: "[::1]:80",
    log: "json",
    nodeAddresses: ["192.0.2.1", "2001:db8::1"],
  }
  expect<object>(parse(given)).toEqual(given)
  const kubernetes = { type: "kubernetes", kubeconfig: "/k", source: "podCIDRs", network: "pods" }
  expect<object>(parse({ store: kubernetes }).store).toEqual(kubernetes)
})

describe("what is refused", () => {
  test.each([
    [{ poolDirs: "/p" }, 'Cannot use "poolDirs": unknown key; did you mean "poolDir"?'],
    [
      { colour: 1 },
      'Cannot use "colour": unknown key; known here: dataDir, http, log, node, nodeAddresses, poolDir, socket, store',
    ],
    [{ store: { ...directory, pth: "/" } }, 'Cannot use "store.pth": unknown key; did you mean "store.path"?'],
    [
      { store: { type: "etcd", endpoints: ["http://a"], tls: { cert: "/" } } },
      'Cannot use "store.tls.cert": unknown key; known here: ca, certificate, key',
    ],
    [{ store: undefined }, 'Cannot use "store": expected an object with "type", found nothing'],
    [
      { store: { type: "consul" } },
      'Cannot use "store.type": expected "directory", "etcd", "kubernetes", found "consul"',
    ],
    [{ store: { type: "directory" } }, 'Cannot use "store.path": expected an object with "path", found nothing'],
    [{ poolDir: "pools" }, 'Cannot use "poolDir": expected an absolute path, found "pools"'],
    [{ log: "xml" }, 'Cannot use "log": expected "text" or "json", found "xml"'],
    [{ http: "localhost:1" }, expect.stringContaining('Cannot use "http": expected ADDRESS:PORT')],
    [{ http: "127.0.0.1:70000" }, expect.stringContaining('Cannot use "http": expected ADDRESS:PORT')],
    [{ http: "::1:80" }, expect.stringContaining('Cannot use "http": expected ADDRESS:PORT')],
    [{ node: "a/b" }, expect.stringContaining('Cannot use "node": expected the name of a node')],
    [
      { nodeAddresses: ["127.0.0.1"] },
      expect.stringContaining('Cannot use "nodeAddresses[0]": expected an address by'),
    ],
    [{ nodeAddresses: ["fe80::1"] }, expect.stringContaining('Cannot use "nodeAddresses[0]": expected an address by')],
    [{ nodeAddresses: ["ff02::1"] }, expect.stringContaining('Cannot use "nodeAddresses[0]": expected an address by')],
    [
      { nodeAddresses: ["192.0.2.1", "192.0.2.2"] },
      'Cannot use "nodeAddresses[1]": expected one address of each family, found "192.0.2.2"',
    ],
    [
      { store: { type: "etcd", endpoints: [] } },
      expect.stringContaining('Cannot use "store.endpoints": expected at least one URL'),
    ],
    [
      { store: { type: "etcd", endpoints: ["10.0.0.1:2379"] } },
      expect.stringContaining('Cannot use "store.endpoints[0]": expected a URL'),
    ],
    [
      { store: { type: "etcd", endpoints: ["http://a"], username: "x" } },
      'Cannot use "store.passwordFile": expected "username" and "passwordFile" together, found nothing',
    ],
    [
      { store: { type: "etcd", endpoints: ["http://a"], tls: { key: "/x" } } },
      'Cannot use "store.tls.certificate": expected "certificate" and "key" together, found nothing',
    ],
    [
      { store: { type: "kubernetes", source: "podCIDRs" } },
      expect.stringContaining('Cannot use "store.network": expected the CNI network'),
    ],
  ])("%j", (keys, message) => {
    expect(refusal(keys)).toEqual(message)
  })

  test("what is not JSON, by line and column", () => {
    expect(() => parseAgentConfig('{\n "store": }')).toThrow(
      "Cannot decode the agent's configuration: line 2, column 11",
    )
  })
})
