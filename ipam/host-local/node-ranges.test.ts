import { expect, test } from "bun:test"
import { chmodSync, mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { serve } from "../../pkg/skel/mod.ts"
import { hostLocal } from "./main.ts"
import type { NodeRanges } from "./node-ranges.ts"

/** A temporary directory with the file of network "pods", and a store. */
class Node implements Disposable {
  readonly path = mkdtempSync(join(tmpdir(), "host-local-ranges-"))
  readonly file = join(this.path, "ranges/pods.json")

  constructor(...ranges: string[]) {
    mkdirSync(join(this.path, "ranges"), { mode: 0o755 })
    this.write({ ranges })
  }

  write(changes: Partial<NodeRanges>): void {
    writeFileSync(this.file, JSON.stringify({ version: 1, node: "node-1", ranges: [], former: [], ...changes }))
  }

  call(verb: string, id: string, ipam: object = {}, others: object = {}) {
    const env = {
      CNI_COMMAND: verb,
      CNI_CONTAINERID: id,
      CNI_NETNS: verb === "DEL" ? "" : "/proc/self/ns/none",
      CNI_IFNAME: "eth0",
      CNI_ARGS: "",
      CNI_PATH: "/opt/cni/bin",
    }
    const keys = { type: "host-local", rangesFile: this.file, dataDir: join(this.path, "data"), ...ipam }
    const config = { cniVersion: "1.1.0", name: "pods", type: "bridge", ipam: keys, ...others }
    const stdin = () => new TextEncoder().encode(JSON.stringify(config))
    const { stdout, exitCode } = serve(hostLocal, { env, stdin, log: () => {} })
    return { exitCode, answer: stdout === "" ? undefined : JSON.parse(stdout) }
  }

  [Symbol.dispose](): void {
    rmSync(this.path, { recursive: true })
  }
}

test("a container gets an address of each range, and the first address is the gateway", () => {
  using node = new Node("10.244.1.0/24", "fd00:10:244:1::/64")
  expect(node.call("ADD", "one").answer.ips).toEqual([
    { address: "10.244.1.2/24", gateway: "10.244.1.1" },
    { address: "fd00:10:244:1::2/64", gateway: "fd00:10:244:1::1" },
  ])
  expect(node.call("STATUS", "")).toEqual({ exitCode: 0, answer: undefined })
})

test("after a change of the range new containers get addresses of the new one; the others keep theirs until DEL", () => {
  using node = new Node("10.244.1.0/24")
  const { answer } = node.call("ADD", "one")
  node.write({ ranges: ["10.244.7.0/24"], former: ["10.244.1.0/24"] })
  expect(node.call("ADD", "two").answer.ips).toEqual([{ address: "10.244.7.2/24", gateway: "10.244.7.1" }])
  expect(node.call("CHECK", "one", {}, { prevResult: answer }).exitCode).toBe(0)
  expect(node.call("DEL", "one").exitCode).toBe(0)
  expect(readdirSync(join(node.path, "data/pods")).filter((name) => name.startsWith("10."))).toEqual(["10.244.7.2"])
})

test("without a range ADD is code 11 and STATUS code 50, and both name what is missing; DEL succeeds", () => {
  using node = new Node()
  const refused = (reason: string) => {
    const msg = `Cannot use the ranges of "${node.file}": ${reason}`
    expect(node.call("ADD", "one").answer).toMatchObject({ code: 11, msg: expect.stringContaining(msg) })
    const status = node.call("STATUS", "").answer
    expect(status.code).toBe(50)
    expect(`${status.msg} ${status.details}`).toContain(reason)
    expect(node.call("DEL", "one").exitCode).toBe(0)
  }
  refused('node "node-1" has no range yet')
  node.write({ ranges: ["10.244.1.5/24"] })
  refused('node "node-1": invalid range set 0')
  writeFileSync(node.file, "{")
  refused("")
  writeFileSync(node.file, '{"version":2}')
  refused("it has version 2, but this release reads version 1")
  writeFileSync(node.file, '{"version":1,"node":"node-1"}')
  refused("a key is missing or wrong")
  rmSync(node.file)
  refused('it does not exist; "cni-agent run" writes it')
})

test("a directory that others can change is not believed, and ranges beside the file are refused", () => {
  using node = new Node("10.244.1.0/24")
  expect(node.call("ADD", "one", { subnet: "10.1.0.0/24" }).answer).toMatchObject({
    code: 7,
    msg: 'Cannot use "ipam.rangesFile" beside "ipam.subnet"',
  })
  chmodSync(join(node.path, "ranges"), 0o777)
  expect(node.call("ADD", "one").answer.code).toBe(5)
})
