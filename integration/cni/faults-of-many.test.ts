/**
 * Tests that one fault of many containers is one finding, with their number and three names. If one command can repair
 * the fault, the finding contains that command.
 */
import { afterAll, beforeAll, expect, test } from "bun:test"
import { extent, isOfMachine, writeSysctl } from "../lab/mod.ts"
import { NodeLab, podsNetwork } from "./node-lab.ts"

const MANY = extent(40, 250)
const AT_ONCE = 5
/** The maximum number of lines of a finding on a terminal of 120 columns. */
const PARAGRAPH = 16

let lab: NodeLab
beforeAll(async () => {
  const [bridge, portmap] = podsNetwork.plugins
  const ipam = { type: "host-local", ranges: [[{ subnet: "10.85.0.0/16" }]] }
  lab = await NodeLab.create({ ...podsNetwork, plugins: [{ ...bridge, ipam }, portmap] })
  for (let count = 0; count < MANY; count += AT_ONCE)
    await Promise.all(Array.from({ length: AT_ONCE }, (_, at) => lab.addPod(`web-${count + at}`)))
})
afterAll(() => lab?.[Symbol.asyncDispose]())

const forEachEnd = (command: string) =>
  lab.host.exec("sh", [
    "-ec",
    `for end in $(ip -o link show type veth | sed 's/^[0-9]*: //; s/@.*//'); do ${command}; done`,
  ])

test.each<[string, string[], () => Promise<unknown>, (() => Promise<unknown>)?]>([
  [
    "all rules of the host are flushed",
    ["route-localnet-open", "missing-masquerade", "missing-ports"],
    () => lab.host.exec("nft", ["flush ruleset"]),
  ],
  [
    "the rules of one chain are flushed",
    ["table-incomplete"],
    () => lab.host.exec("nft", ["flush chain ip cni_hostports prerouting"]),
  ],
  ["the bridge is deleted", ["bridge-missing"], () => lab.host.exec("ip", ["link", "delete", "cni0"])],
  [
    "the gateway's address is deleted",
    ["gateway-missing"],
    () => lab.host.exec("ip", ["address", "flush", "dev", "cni0"]),
  ],
  ["every end is down", ["link-down"], () => forEachEnd("ip link set $end down")],
  [
    "every container's interface is down",
    ["container-link-down"],
    () =>
      lab.host.exec("sh", [
        "-ec",
        'for net in $(sed -n \'s/.*"netns": *"\\([^"]*\\)".*/\\1/p\' /var/lib/cni/results/*); do nsenter --net=$net ip link set eth0 down; done',
      ]),
  ],
  [
    "a filter of tc drops at every end",
    ["tc-filter"],
    () => forEachEnd("tc qdisc add dev $end clsact; tc filter add dev $end ingress bpf da bytecode '1,6 0 0 2'"),
    () => forEachEnd("tc qdisc delete dev $end clsact"),
  ],
  [
    "every end has a qdisc that drops all",
    ["queue-drops"],
    () => forEachEnd("tc qdisc add dev $end root blackhole"),
    () => forEachEnd("tc qdisc delete dev $end root"),
  ],
  ["forwarding is off", ["forwarding-off"], () => writeSysctl(lab.host, "net/ipv4/ip_forward", "0")],
  ["the leases are deleted", ["missing-lease"], () => lab.host.exec("rm", ["-r", "/var/lib/cni/networks/pods"])],
  [
    "others may change the records",
    ["record-exposed"],
    () => lab.host.exec("sh", ["-c", "chmod 666 /var/lib/cni/results/*"]),
  ],
])(
  `${MANY} containers, and %s: one finding for each cause, which names all and goes when it is mended`,
  // The default value keeps the test runner from passing a callback as this parameter.
  async (_, rules, seed, mendByHand = undefined) => {
    expect(await lab.doctor()).toEqual({ findings: [], stderr: "", exitCode: 0 })
    await seed()
    const { findings } = await lab.doctor()
    expect(findings.map(({ rule }) => rule)).toEqual(rules)
    for (const { rule, what, affected, pasteable } of findings) {
      expect(pasteable).toBe(mendByHand === undefined)
      if (rule === "route-localnet-open") continue // this finding concerns the bridge
      const details = new Set(affected.map(({ detail }) => detail))
      if (rule === "missing-ports")
        expect([...details].filter((each) => /^port 8\d\d\d\/tcp$/.test(each ?? ""))).toHaveLength(MANY)
      expect(new Set(affected.map(({ name }) => name)).size).toBe(MANY)
      expect(what).toMatch(new RegExp(`\\b${MANY}\\b`))
      expect(what).toMatch(
        /: ("[^"]+"( \(pod [^)]+\))?(: [^;]+;|,) ){2}"[^"]+"( \(pod [^)]+\))?(: [^;]+;)? and \d+ more$/,
      )
      expect(what).toEndWith(` and ${MANY - 3} more`)
    }
    const short = (await lab.onTerminal(["doctor"])).stdout
    const paragraphs = short.split(/\r?\n\r?\n/).filter((each) => !isOfMachine(each.split(/\s+/)[1] ?? ""))
    expect(paragraphs).toHaveLength(rules.length + 1) // one more for the summary line
    for (const each of paragraphs) expect(each.split("\n").length).toBeLessThan(PARAGRAPH)
    expect(short).toMatch(new RegExp(`^${rules.length} errors?, [012] warnings?, `, "m")) // the machine's tables of neighbors may be full
    const whole = (await lab.onTerminal(["doctor", "--all"])).stdout.replaceAll(/\s+/g, "")
    for (const { affected } of findings)
      for (const { name, detail } of affected)
        expect(whole).toContain(`${name}${detail === undefined ? "" : `: ${detail}`}`.replaceAll(" ", ""))
    await mendByHand?.()
    for (const remedy of new Set(mendByHand ? [] : findings.map(({ remedy }) => remedy)))
      expect(await lab.paste(remedy)).toMatchObject({ stderr: "", exitCode: 0 })
    expect(await lab.doctor()).toEqual({ findings: [], stderr: "", exitCode: 0 })
  },
)
