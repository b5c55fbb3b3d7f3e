/** Tests routes, waits and settings of `pkg/ip` and `pkg/sysctl` on a real kernel; `ip` and /proc/sys show results. */
import { afterAll, beforeAll, expect, test } from "bun:test"
import { type ContainerNamespace, HostNamespace } from "../../lab/mod.ts"
import { runOnHost } from "./rooms.ts"

let host: HostNamespace
let pod: ContainerNamespace
beforeAll(async () => {
  host = await HostNamespace.create("ip-routes")
  pod = await host.addContainer()
  for (const [name, number] of [
    ["eth0", 0],
    ["other", 1],
  ] as const) {
    await pod.exec("ip", ["link", "add", name, "type", "veth", "peer", "name", `peer-${name}`])
    await pod.exec("ip", ["address", "add", `10.${number + 1}.0.5/24`, "dev", name])
    await pod.exec("ip", ["address", "add", `fd0${number}::5/64`, "dev", name, "nodad"])
    for (const end of [name, `peer-${name}`]) await pod.exec("ip", ["link", "set", end, "up"])
  }
})
afterAll(() => host[Symbol.asyncDispose]())

test("the routes of a link are its unicast ones, of both families; of a table, if one is asked for", async () => {
  await pod.exec("ip", ["route", "add", "10.7.0.0/16", "via", "10.1.0.1", "table", "77"])
  await pod.exec("ip", ["route", "add", "10.6.0.0/16", "nexthop", "via", "10.1.0.1", "nexthop", "dev", "other"])
  await pod.exec("ip", ["route", "add", "10.5.0.0/16", "nexthop", "via", "10.1.0.1", "nexthop", "via", "10.1.0.2"])
  await pod.exec("ip", ["-6", "route", "add", "fd05::/64", "nexthop", "via", "fd00::1", "nexthop", "via", "fd01::9"])
  const found = await runOnHost(host, pod, ({ inside, listRoutesOf, getLink, formatCidr, usedTables, freeTable }) => {
    const link = getLink(inside, "eth0")
    const texts = (table?: number) =>
      listRoutesOf(inside, link, table === undefined ? {} : { table }).map(
        ({ dst, prefix, gateway, nextHops }) =>
          `${formatCidr({ ip: dst, prefix })}${gateway ? " via" : ""}${nextHops ? ` ${nextHops.length} hops` : ""}`,
      )
    const used = usedTables(inside)
    return {
      all: texts().sort(),
      of77: texts(77),
      used: [...used].sort((a, b) => a - b),
      next: [freeTable(used, 76), freeTable(used, 77)],
    }
  })
  expect(found.all).toEqual(
    ["10.1.0.0/24", "10.5.0.0/16 2 hops", "10.7.0.0/16 via"].concat("fd00::/64", "fd05::/64 via", "fe80::/64"),
  )
  expect(found).toMatchObject({ of77: ["10.7.0.0/16 via"], used: [0, 77, 253, 254, 255], next: [76, 78] })
})

test("a link that passes traffic is as it is then; one whose other end is down is refused with its state, a deleted one as gone", async () => {
  const answers = await runOnHost(
    host,
    pod,
    ({ host, inside, sandbox, createVethPair, getLink, setLink, deleteLink, waitOperational }) => {
      const name = createVethPair(host, { sandbox, ifName: "late", alias: "lab/c/x" })
      const end = getLink(host, name)
      setLink(host, end, { up: true })
      const texts: unknown[] = []
      const attempt = (body: () => unknown) => {
        try {
          texts.push(body())
        } catch (error) {
          const { code, message } = error as { code: number; message: string }
          texts.push(`${code} ${message.replace(name, "NAME")}`)
        }
      }
      attempt(() => waitOperational(host, end).name === name)
      setLink(inside, getLink(inside, "late"), { up: true })
      attempt(() => waitOperational(host, end).attributes.operState)
      deleteLink(host, end)
      attempt(() => waitOperational(host, { ...end, attributes: { ...end.attributes, operState: 2 } }))
      return texts
    },
  )
  expect(answers).toEqual([
    // The state is Down if both ends happen to have the same index.
    expect.stringMatching(/^11 Cannot bring up "NAME" within 2550 ms: its state is (Down|LowerLayerDown)$/),
    6,
    '11 Cannot bring up "NAME" within 2550 ms: it was deleted',
  ])
})

test("an empty setting is written, and one that has the value already is left alone", async () => {
  await host.exec("sysctl", ["-qw", "net.ipv4.ip_local_reserved_ports=8080,9000"])
  const seen = await runOnHost(host, pod, ({ readSysctl, writeSysctl }) => {
    const name = "net/ipv4/ip_local_reserved_ports"
    const before = readSysctl(name)
    writeSysctl(name, "")
    return [before, readSysctl(name)]
  })
  expect(seen).toEqual(["8080,9000", ""])
  expect((await host.exec("cat", ["/proc/sys/net/ipv4/ip_local_reserved_ports"])).stdout).toBe("\n")
})

test("a host forwards each family when it is told to; what is off is a difference for CHECK, and no reason for STATUS to refuse", async () => {
  await host.exec("sysctl", ["-qw", "net.ipv4.ip_forward=0", "net.ipv6.conf.all.forwarding=0"])
  const says = await runOnHost(
    host,
    pod,
    ({ checkForwarding, requireForwarding, enableForwarding, AF_INET, AF_INET6 }) =>
      ([AF_INET, AF_INET6] as const).flatMap((family) => {
        const check = () => {
          try {
            checkForwarding(family)
            return "on"
          } catch (error) {
            return (error as Error).message
          }
        }
        requireForwarding(family)
        const before = check()
        enableForwarding(family)
        return [before, check()]
      }),
  )
  const off = (name: string) => `Check of sysctl "${name}" failed: expected 1, found 0`
  expect(says).toEqual([off("net/ipv4/ip_forward"), "on", off("net/ipv6/conf/all/forwarding"), "on"])
  const { stdout } = await host.exec("sysctl", ["-n", "net.ipv4.ip_forward", "net.ipv6.conf.all.forwarding"])
  expect(stdout).toBe("1\n1\n")
})

test("a setting that does not let itself be made is named, and the cause told", async () => {
  await host.exec("mount", ["-t", "tmpfs", "no-sysctls", "/proc/sys/net/ipv4"])
  const says = await runOnHost(host, pod, ({ requireForwarding, enableForwarding, AF_INET }) =>
    [requireForwarding, enableForwarding].map((act) => {
      try {
        act(AF_INET)
        return ["nothing"]
      } catch (error) {
        const { code, message, details } = error as { code: number; message: string; details: string }
        return [code, message, details.includes("ENOENT")]
      }
    }),
  )
  await host.exec("umount", ["/proc/sys/net/ipv4"])
  expect(says).toEqual(Array(2).fill([999, 'Cannot enable forwarding by "net/ipv4/ip_forward"', true]))
})

test("an interface of the host stops heeding routers where it did, and heeds them again as it did before", async () => {
  await host.exec("ip", ["link", "add", "ra0", "type", "bridge"])
  const setting = "net/ipv6/conf/ra0/accept_ra"
  const found = await runOnHost(
    host,
    pod,
    ({ refuseRouterAdvertisements, restoreAcceptRa, readSysctl, writeSysctl }) => {
      const name = "net/ipv6/conf/ra0/accept_ra"
      return ["2", "0"].map((value) => {
        writeSysctl(name, value)
        const before = refuseRouterAdvertisements("ra0")
        const between = readSysctl(name)
        restoreAcceptRa("ra0", before)
        return [before ?? "as it was", between, readSysctl(name)]
      })
    },
  )
  expect(found).toEqual([
    ["2", "0", "2"],
    ["as it was", "0", "0"],
  ])
  expect((await host.exec("cat", [`/proc/sys/${setting}`])).stdout).toBe("0\n")
  expect(
    await runOnHost(host, pod, ({ refuseRouterAdvertisements }) => refuseRouterAdvertisements("absent") ?? "nothing"),
  ).toBe("nothing")
})

test("a setting without a value, one that may not be written, and one that takes no such value are told apart from none", async () => {
  await host.exec("mount", ["--bind", "/proc/sys/net/ipv4", "/proc/sys/net/ipv4"])
  await host.exec("mount", ["-o", "remount,bind,ro", "/proc/sys/net/ipv4"])
  const seen = await runOnHost(
    host,
    pod,
    ({ findSysctl, readSysctl, tryWriteSysctl, writeSysctl, requireSettable }) => {
      const errnoOf = (act: () => void) => {
        try {
          act()
          return "done"
        } catch (error) {
          return (error as { errno?: string }).errno ?? String(error)
        }
      }
      const secret = "net/ipv6/conf/default/stable_secret"
      const [forward, hops] = ["net/ipv4/ip_forward", "net/ipv6/conf/default/hop_limit"]
      const other = readSysctl(forward) === "1" ? "0" : "1"
      return [
        ...[findSysctl(secret) ?? "none", errnoOf(() => readSysctl(secret))],
        ...[tryWriteSysctl(forward, other), errnoOf(() => writeSysctl(forward, other))],
        ...[
          errnoOf(() => requireSettable(forward, other)),
          errnoOf(() => requireSettable(forward, readSysctl(forward))),
        ],
        ...[
          tryWriteSysctl(hops, "none"),
          errnoOf(() => writeSysctl(hops, "none")),
          tryWriteSysctl(hops, "63"),
          readSysctl(hops),
        ],
      ]
    },
  )
  await host.exec("umount", ["/proc/sys/net/ipv4"])
  expect(seen).toEqual(["none", "EIO", false, "EROFS", "EROFS", "done", false, "EINVAL", true, "63"])
})
