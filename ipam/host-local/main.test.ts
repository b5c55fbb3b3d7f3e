import { describe, expect, test } from "bun:test"
import { existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { serve } from "../../pkg/skel/mod.ts"
import { hostLocal } from "./main.ts"

class DataDir implements Disposable {
  readonly path = mkdtempSync(join(tmpdir(), "host-local-data-"))

  /** Calls the plugin for network "net" like a runtime, with this `ipam` and further keys of the configuration. */
  call(ipam: object, options: Options = {}, plugin = hostLocal) {
    const { verb = "ADD", id = "abc", cniArgs = "", version = "1.1.0", ...config } = options
    const env = {
      CNI_COMMAND: verb,
      CNI_CONTAINERID: id,
      CNI_NETNS: verb === "DEL" ? "" : "/proc/self/ns/none",
      CNI_IFNAME: "eth0",
      CNI_ARGS: cniArgs,
      CNI_PATH: "/opt/cni/bin",
    }
    const whole = { cniVersion: version, name: "net", type: "bridge", ipam: { dataDir: this.path, ...ipam }, ...config }
    const stdin = () => new TextEncoder().encode(JSON.stringify(whole))
    const log: string[] = []
    const { stdout, exitCode } = serve(plugin, { env, stdin, log: (line) => log.push(line) })
    return { exitCode, answer: stdout === "" ? undefined : JSON.parse(stdout), log }
  }

  names(): string[] {
    return existsSync(this.file("")) ? readdirSync(this.file("")).sort() : []
  }

  file(name: string): string {
    return join(this.path, "net", name)
  }

  [Symbol.dispose](): void {
    rmSync(this.path, { recursive: true })
  }
}

interface Options {
  verb?: string
  id?: string
  cniArgs?: string
  version?: string
  [key: string]: unknown
}

const dual = { ranges: [[{ subnet: "10.1.0.0/24" }], [{ subnet: "fd00::/64", gateway: "fd00::99" }]] }
const single = { subnet: "10.1.0.0/29" }

describe("ADD", () => {
  test("answers an address of each range set with prefix and gateway, and the routes as they are written", () => {
    using data = new DataDir()
    const routes = [
      { dst: "0.0.0.0/0" },
      { dst: "fd01::/48", gw: "fd00::7", mtu: 1400, advmss: 1360, priority: 1, table: 7, scope: 0 },
    ]
    const { answer } = data.call({ ...dual, routes })
    expect(answer).toEqual({
      cniVersion: "1.1.0",
      ips: [
        { address: "10.1.0.2/24", gateway: "10.1.0.1" },
        { address: "fd00::1/64", gateway: "fd00::99" },
      ],
      routes,
    })
  })

  test("takes ranges of runtimeConfig first, then the old single form, then the list", () => {
    using data = new DataDir()
    const runtimeConfig = { IPRanges: [[{ Subnet: "10.7.0.0/24" }]] }
    const { answer } = data.call({ ...dual, ranges: [[{ subnet: "10.9.0.0/24" }]], ...single }, { runtimeConfig })
    expect(answer.ips.map(({ address }: { address: string }) => address)).toEqual([
      "10.7.0.2/24",
      "10.1.0.2/29",
      "10.9.0.2/24",
    ])
    expect(data.names()).toEqual(
      expect.arrayContaining(["last_reserved_ip.0", "last_reserved_ip.1", "last_reserved_ip.2"]),
    )
  })

  test("unites the addresses that runtimeConfig.ips asks for with those of CNI_ARGS or args.cni.ips", () => {
    using data = new DataDir()
    const runtimeConfig = { ips: ["10.1.0.5", "fd00:0::5"] }
    const asked = data.call(dual, { cniArgs: "IP=10.1.0.5/16;IgnoreUnknown=1;K8S_POD_NAME=x", runtimeConfig })
    expect(asked.answer.ips.map(({ address }: { address: string }) => address)).toEqual(["10.1.0.5/24", "fd00::5/64"])
    const hints = { args: { cni: { ips: ["fd00::6/64"] } }, runtimeConfig: { ips: ["10.1.0.6"] } }
    const hinted = data.call(dual, { id: "b", ...hints })
    expect(hinted.answer.ips.map(({ address }: { address: string }) => address)).toEqual(["10.1.0.6/24", "fd00::6/64"])
    expect(data.call(dual, { id: "c", cniArgs: "IP=" }).exitCode).toBe(0)
  })

  test("#47 ignores IP in CNI_ARGS when args.cni.ips asks for addresses, where upstream unites them", () => {
    using data = new DataDir()
    const args = (...ips: string[]) => ({ args: { cni: { ips } }, cniArgs: "IP=10.1.0.5" })
    expect(data.call(single, { id: "a", ...args("10.1.0.4") }).answer.ips).toMatchObject([{ address: "10.1.0.4/29" }])
    expect(data.call(single, { id: "b", ...args() }).answer.ips).toMatchObject([{ address: "10.1.0.5/29" }])
    const nonsense = data.call(single, { id: "c", ...args("10.1.0.6"), cniArgs: "IP=nonsense" })
    expect(nonsense.answer.ips).toMatchObject([{ address: "10.1.0.6/29" }])
  })

  test("answers what resolvConf says as dns; an unreadable one stops it before anything is reserved", () => {
    using data = new DataDir()
    writeFileSync(join(data.path, "resolv"), "nameserver 192.0.2.53\nsearch a.example\n")
    const { answer } = data.call({ ...single, resolvConf: join(data.path, "resolv") })
    expect(answer.dns).toEqual({ nameservers: ["192.0.2.53"], search: ["a.example"] })
    using other = new DataDir()
    const refused = other.call({ ...single, resolvConf: "/nonexistent/resolv.conf" })
    expect(refused.answer).toMatchObject({ code: 5, details: expect.stringContaining("/nonexistent/resolv.conf") })
    expect(other.names()).toEqual([])
  })

  test("whose result does not fit into the version leaves nothing reserved", () => {
    using data = new DataDir()
    const misfit: typeof hostLocal = {
      ...hostLocal,
      add: (call, config) => {
        const answer = () => {
          throw new Error("it does not fit")
        }
        return hostLocal.add({ ...call, answer }, config)
      },
    }
    expect(data.call(single, {}, misfit).answer.msg).toBe("it does not fit")
    expect(data.names()).not.toContain("10.1.0.2")
    expect(data.call(single, { version: "0.2.0" }).answer.ip4.ip).toBe("10.1.0.3/29")
  })
})

describe("a configuration is refused with code 7 for", () => {
  test.each([
    ["no ranges", {}, "no IP ranges specified"],
    [
      "a bad range",
      { ranges: [[{ subnet: "10.1.0.5/24" }]] },
      "invalid range set 0: Network 10.1.0.5/24 has host bits",
    ],
    [
      "ranges of the wrong type",
      { ranges: [{ subnet: "10.1.0.0/24" }] },
      '"ipam.ranges[0]": expected a list of ranges',
    ],
    ["a bad route", { ...single, routes: [{ dst: "10.0.0.0" }] }, "routes[0].dst"],
    ["a dataDir of the wrong type", { ...single, dataDir: 5 }, '"ipam.dataDir"'],
    ["a dataDir that no directory can have", { ...single, dataDir: "/a\0b" }, '"ipam.dataDir"'],
  ])("%s", (_, ipam, message) => {
    using data = new DataDir()
    const { exitCode, answer } = data.call(ipam)
    expect(exitCode).toBe(1)
    expect(answer).toMatchObject({ code: 7, msg: expect.stringContaining(message) })
    expect(data.names()).toEqual([])
  })

  test("a requested address that cannot be parsed, or is empty", () => {
    using data = new DataDir()
    for (const ips of [["10.1.0.x"], [""]]) {
      const { answer } = data.call(single, { runtimeConfig: { ips } })
      expect(answer).toMatchObject({ code: 7, msg: expect.stringContaining("cannot understand ip") })
    }
  })

  // Programs compare these messages as a whole, so explanations are in the details.
  test.each([
    ["no ranges", {}, "1.1.0", "no IP ranges specified"],
    ["no ipam at all", undefined, "1.1.0", "IPAM config missing 'ipam' key"],
    [
      "sets that overlap",
      { ranges: [[{ subnet: "10.1.0.0/24" }], [{ subnet: "10.1.0.0/16" }]] },
      "1.1.0",
      "range set 0 overlaps with 1",
    ],
    [
      "two sets of a family below 0.3.0",
      { ranges: [[{ subnet: "10.1.0.0/24" }], [{ subnet: "10.2.0.0/24" }]] },
      "0.2.0",
      "CNI version 0.2.0 does not support more than 1 address per family",
    ],
  ])("%s, in upstream's words and no other", (_, ipam, version, msg) => {
    using data = new DataDir()
    const { code, details, ...error } = data.call(single, { version, ipam: ipam ?? null }).answer
    expect({ code, msg: error.msg }).toEqual({ code: 7, msg })
    expect(details).toMatch(/./)
  })

  test("two range sets of a family below 0.3.0", () => {
    using data = new DataDir()
    const ranges = [[{ subnet: "10.1.0.0/24" }], [{ subnet: "10.2.0.0/24" }]]
    expect(data.call({ ranges }, { version: "0.2.0" }).answer).toMatchObject({
      msg: "CNI version 0.2.0 does not support more than 1 address per family",
      details: "found 2 IPv4 and 0 IPv6 range sets",
    })
    expect(data.call(dual, { version: "0.2.0" }).exitCode).toBe(0)
  })
})

describe("the address that CNI_ARGS asks for", () => {
  test.each(["zzz", "10.1.0", "10.1.0.300"])("is code 4 with CNI_ARGS in the message when it is %j", (IP) => {
    using data = new DataDir()
    const { answer } = data.call(single, { cniArgs: `IP=${IP}` })
    expect(answer).toMatchObject({
      code: 4,
      msg: `CNI_ARGS: cannot read the value of "IP=${IP}"`,
      details: "expected an address such as 10.1.0.5",
    })
    expect(data.names()).toEqual([])
  })
})

describe("DEL", () => {
  test.each([
    ["broken ranges", { ranges: [[{ subnet: "nonsense" }]] }, {}],
    ["no ranges", {}, {}],
    ["ranges of the wrong type", { ranges: 5, routes: "x", subnet: {} }, {}],
    ["broken CNI_ARGS", single, { cniArgs: "IP=;;=x" }],
    ["broken wishes", single, { runtimeConfig: { ips: 5 }, cniArgs: "IP=nowhere" }],
    ["a broken previous result", single, { prevResult: { ips: "x" } }],
  ])("releases with %s", (_, ipam, options) => {
    using data = new DataDir()
    data.call(single)
    expect(data.names()).toContain("10.1.0.2")
    for (let times = 0; times < 2; times++) {
      expect(data.call(ipam, { verb: "DEL", ...options })).toMatchObject({ exitCode: 0, answer: undefined })
      expect(data.names()).not.toContain("10.1.0.2")
    }
  })
})

test("DEL says what it cannot release where there is no store, and was to release something", () => {
  using data = new DataDir()
  const prevResult = { cniVersion: "1.1.0", ips: [{ address: "10.1.0.2/24" }, { address: "fd00::2/64" }] }
  const del = (more: Options) => data.call(single, { verb: "DEL", ...more }).log
  expect([del({}), del({ prevResult: { cniVersion: "1.1.0" } })]).toEqual([[], []])
  expect(del({ prevResult })).toEqual([
    `host-local: DEL released nothing: "${join(data.path, "net")}" does not exist. If a mount hides it, the addresses of ` +
      "container abc, interface eth0 (10.1.0.2/24, fd00::2/64) stay reserved: " +
      'see "cni ipam ls" and "cni ipam release" ("cni install --tool-dir" installs "cni")',
  ])
  data.call(single)
  expect([del({ prevResult }), del({ prevResult })]).toEqual([[], []])
})

describe("CHECK", () => {
  const result = (...ips: string[]) => ({ cniVersion: "1.1.0", ips: ips.map((address) => ({ address })) })

  test("accepts the addresses of ADD, and does not care for those of other plugins", () => {
    using data = new DataDir()
    data.call(dual)
    const prevResult = result("10.1.0.2/24", "fd00::1/64", "192.0.2.9/24")
    expect(data.call(dual, { verb: "CHECK", prevResult }).exitCode).toBe(0)
    expect(data.call(dual, { verb: "CHECK" }).exitCode).toBe(0)
  })

  test("says which address is missing, and who has it", () => {
    using data = new DataDir()
    data.call(dual)
    rmSync(data.file("10.1.0.2"))
    const check = () => data.call(dual, { verb: "CHECK", prevResult: result("10.1.0.2/24", "fd00::1/64") }).answer
    expect(check()).toMatchObject({
      msg: "host-local: Failed to find address added by container abc",
      details: expect.stringContaining("10.1.0.2 is not reserved: no file"),
    })
    writeFileSync(data.file("10.1.0.2"), "other\r\neth7")
    expect(check().details).toContain("10.1.0.2 is reserved for container other, interface eth7")
  })

  test("of a store whose lock cannot be opened says so, and nothing of where in the sources that was", () => {
    using data = new DataDir()
    mkdirSync(data.file("lock"), { recursive: true }) // opening it fails, as on a read-only file system without a lock file
    const { answer } = data.call(dual, { verb: "CHECK", prevResult: result("10.1.0.2/24") })
    expect(answer.msg).toBe(
      `Cannot look up the addresses of container abc, interface eth0 in "${data.file("").replace(/\/$/, "")}"`,
    )
    expect(answer.details).toMatch(/^open ".*\/lock": .* \(EISDIR\)$/)
  })

  test("of a container that was never added fails", () => {
    using data = new DataDir()
    const prevResult = result("10.1.0.2/24")
    expect(data.call(dual, { verb: "CHECK", prevResult }).answer.details).toContain("no directory")
    data.call(dual, { id: "other" })
    expect(data.call(dual, { verb: "CHECK" }).answer.msg).toContain("Failed to find address added by container abc")
  })
})

describe("STATUS", () => {
  test("is fine before the first ADD, and while each range set has an address left", () => {
    using data = new DataDir()
    expect(data.call(dual, { verb: "STATUS" })).toMatchObject({ exitCode: 0, answer: undefined })
    data.call(dual)
    expect(data.call(dual, { verb: "STATUS" }).exitCode).toBe(0)
  })

  test("#36 warns with the numbers when a range set is full, and succeeds", () => {
    using data = new DataDir()
    for (let count = 0; count < 5; count++) data.call(single, { id: `c${count}` })
    const { exitCode, answer, log } = data.call(single, { verb: "STATUS" })
    expect({ exitCode, answer }).toEqual({ exitCode: 0, answer: undefined })
    expect(log).toEqual([expect.stringContaining("range set 0 (10.1.0.1-10.1.0.6) is full, 5 of 5 addresses used")])
  })

  test("#36 is code 50 when a range set has no address to hand out at all", () => {
    using data = new DataDir()
    const gatewayOnly = { subnet: "10.1.0.0/29", rangeStart: "10.1.0.1", rangeEnd: "10.1.0.1" }
    const { answer } = data.call(gatewayOnly, { verb: "STATUS" })
    expect(answer).toMatchObject({ code: 50, msg: expect.stringContaining("range set 0 (10.1.0.1-10.1.0.1)") })
  })

  test("is code 50 with the reason when the store takes no files", () => {
    using data = new DataDir()
    mkdirSync(data.path, { recursive: true })
    writeFileSync(join(data.path, "net"), "")
    const { answer } = data.call(single, { verb: "STATUS" })
    expect(answer).toMatchObject({ code: 50, details: expect.stringContaining("ENOTDIR") })
  })

  test("is code 7 when the configuration is wrong", () => {
    using data = new DataDir()
    expect(data.call({ subnet: "10.1.0.0/31" }, { verb: "STATUS" }).answer.code).toBe(7)
  })
})

describe("GC", () => {
  const keep = (...ids: string[]) => ids.map((containerID) => ({ containerID, ifname: "eth0" }))

  test.each(["cni.dev/valid-attachments", "cni.dev/attachments"])("keeps the attachments of %s", (key) => {
    using data = new DataDir()
    for (const id of ["a", "b", "c"]) data.call(single, { id })
    expect(data.call({ ranges: "broken" }, { verb: "GC", [key]: keep("b") })).toMatchObject({ exitCode: 0 })
    expect(data.names().filter((name) => name.startsWith("10."))).toEqual(["10.1.0.3"])
  })

  test("is about container and interface", () => {
    using data = new DataDir()
    data.call(single)
    data.call(single, { verb: "GC", "cni.dev/attachments": [{ containerID: "abc", ifname: "eth1" }] })
    expect(data.names()).not.toContain("10.1.0.2")
  })

  test("without a list of attachments deletes nothing", () => {
    using data = new DataDir()
    data.call(single)
    expect(data.call(single, { verb: "GC" }).exitCode).toBe(0)
    expect(data.names()).toContain("10.1.0.2")
  })
})
