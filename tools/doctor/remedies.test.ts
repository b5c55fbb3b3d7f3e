import { expect, test } from "bun:test"
import { readdir } from "node:fs/promises"
import { join } from "node:path"

/** Commands that show something and change nothing. */
const SHOWING = [
  "bpftool prog show id …",
  "bridge fdb get … br …",
  "df -h …",
  "df -i …",
  "du -xa … | sort -n | tail",
  "findmnt …",
  "ip -6 route show default",
  "ip -6 rule show",
  "ip …",
  "ip address show dev …",
  "ip address show to …",
  "ip neighbour show … dev …",
  "ip route show default",
  "ip route show …",
  "ip rule show",
  "ip xfrm policy",
  "nft -a list chain …",
  "nft -a list ruleset",
  "tc filter show dev … …",
  "tc qdisc show dev …",
]

/** Commands that change something. The value names the changed object, of this suite or the kernel. */
const CHANGING: Readonly<Record<string, string>> = {
  "bridge fdb replace … dev … self local": "the bridge's own entry, which the kernel makes with it",
  "bridge link set dev … hairpin on": "a container's port",
  "bridge link set dev … isolated off": "a container's port",
  "bridge link set dev … state 3": "a container's port",
  "bridge link set dev … …": "a container's port",
  "chmod 755 …": "a plugin's file",
  "chmod go-w …": "files that a plugin believes",
  "chmod … …": "a plugin's file",
  "chown root:root …": "files that a plugin believes",
  "cni install --bin-dir …": "this tool",
  "cni install --bin-dir … --adopt": "this tool, which keeps what it replaces",
  "cni lint": "this tool",
  "cni lint …": "this tool",
  "cni …": "this tool",
  "cni … …": "this tool",
  "ip -6 route replace local … dev … table local proto kernel": "the kernel's route of an address",
  "ip -6 route replace … dev …": "a route of ptp",
  "ip -6 route replace … dev … proto kernel metric 256": "the kernel's route of a gateway's network",
  "ip -6 route replace …": "a route of ADD's result",
  "ip -6 rule add priority 0 lookup local": "the kernel's own rule",
  "ip -6 rule add priority 32766 lookup main": "the kernel's own rule",
  "ip address delete … dev …": "an address of ADD's result that failed, before it is given again",
  "ip address replace … dev …": "an address of ADD's result, or a gateway's",
  "ip address replace … dev … nodad": "an address of ADD's result, or a gateway's",
  "ip link add … up type bridge": "the bridge of a network",
  "ip link delete …": "a second end that has the owner's name of an attachment",
  "ip link set lo up": "the loopback interface",
  "ip link set … address …": "an interface of ADD's result",
  "ip link set … arp on": "an interface of ADD's result, or a gateway's",
  "ip link set … down": "an interface that has to get its name of ADD's result again",
  "ip link set … master …": "a container's end",
  "ip link set … mtu …": "a container's interface, its end or its bridge",
  "ip link set … name …": "an interface of ADD's result, or the bridge of a network",
  "ip link set … name … up": "an interface of ADD's result",
  "ip link set … type bridge stp_state 0": "a bridge of containers alone",
  "ip link set … type bridge_slave …": "a container's end",
  "ip link set … up": "a container's interface, its end, its bridge or its master",
  "ip neighbour delete … dev …": "what the kernel has found out, and finds out again",
  "ip route replace local … dev … table local proto kernel scope host src …": "the kernel's route of an address",
  "ip route replace … dev … proto kernel scope link …": "the kernel's route of a gateway's network",
  "ip route replace … dev … scope host": "a route of ptp",
  "ip route replace …": "a route of ADD's result",
  "ip rule add priority 0 lookup local": "the kernel's own rule",
  "ip rule add priority 32766 lookup main": "the kernel's own rule",
  "mkdir -p …": "a directory of plugins or leases",
  "modprobe br_netfilter": "the kernel",
  "modprobe nf_tables": "the kernel",
  "mount --bind … …": "the path of a container's namespace",
  "mv -T … …": "what stands in the place of host-local's files",
  "mv … …": "what stands in the place of a directory of plugins",
  "nft add table …": "a table of this suite that is dormant",
  "printf '%s\\\\r\\\\n%s' … … | tee … > /dev/null": "a lease of an attachment",
  "rm …": "a record that cannot be used, or what stands in the place of host-local's files",
  "sysctl -w …": "a setting of the kernel",
  "systemctl enable --now cni-reconcile.service": "this suite's unit",
  "touch …": "the path of a container's namespace",
}

/** Returns the command templates in a source file: the text of each sh`…` template, with "…" for each value. */
function templatesIn(source: string): string[] {
  return [...source.matchAll(/(?<![\w"'*])sh`/g)].map(({ index }) => templateAt(source, index + "sh`".length).text)
}

function templateAt(source: string, from: number): { text: string; end: number } {
  let text = ""
  for (let at = from; ; at++) {
    const char = source[at]
    if (char === undefined || char === "`") return { text, end: at }
    if (source.startsWith("${", at)) {
      at = valueEnd(source, at + 2)
      text += "…"
    } else text += char
  }
}

function valueEnd(source: string, from: number): number {
  for (let at = from, depth = 1; ; at++) {
    if (source[at] === "`") at = templateAt(source, at + 1).end
    else if (source[at] === "{") depth++
    else if (source[at] === "}" && --depth === 0) return at
  }
}

/** Returns the commands in a template, without the wrappers that run them in a container or for several objects. */
function commandsIn(template: string): string[] {
  if (template.startsWith("for each in ")) return []
  const inside = template.replace(/^nsenter (--net=)?… (sh -ec )?/, "")
  return inside.split("; ").filter((each) => each !== "…")
}

const strange = (source: string) =>
  templatesIn(source)
    .flatMap(commandsIn)
    .filter((command) => !SHOWING.includes(command) && !Object.hasOwn(CHANGING, command))

const sources = (await readdir(import.meta.dir)).filter((file) => /^(?!.*\.test\.ts$).*\.ts$/.test(file))
const texts = await Promise.all(
  sources.map(async (file) => [file, await Bun.file(join(import.meta.dir, file)).text()] as const),
)
/** The source files without comments, which may show commands as examples. */
const codes = texts.map(([file, text]) => [file, text.replace(/^\s*(\/\*\*|\*|\/\/).*$/gm, "")] as const)

test("no command of a remedy deletes or changes what is not this suite's [S301]", () => {
  expect(codes.flatMap(([file, code]) => strange(code).map((command) => `${file}: ${command}`))).toEqual([])
  const used = new Set(codes.flatMap(([, code]) => templatesIn(code).flatMap(commandsIn)))
  expect([...SHOWING, ...Object.keys(CHANGING)].filter((command) => !used.has(command))).toEqual([])
})

test("a command that does is found here", () => {
  const found = (line: string) => strange(`remedy: sh\`${line.replaceAll("<", "${").replaceAll(">", "}")}\`,`)
  expect(found("nft delete rule <[table.family, name]> handle <String(handle)>")).toEqual([
    "nft delete rule … handle …",
  ])
  expect(found('nft add chain <chain> <"{ policy accept; }">')).toEqual(["nft add chain … …"])
  expect(found("nsenter <`--net=<path>`> ip rule delete priority <priority>")).toEqual(["ip rule delete priority …"])
  expect(found("ip link set <name> up; iptables -F")).toEqual(["iptables -F"])
})

test("commands are made by that form alone, and no words say how to delete a rule or route", () => {
  const wrong = /new Command\(|\b(nft|iptables) [^"`]*(delete|insert) |\bip (rule|route) (delete|del) /
  const isAllowed = (file: string) => file === "remedy.ts"
  expect(codes.filter(([file, code]) => !isAllowed(file) && wrong.test(code)).map(([file]) => file)).toEqual([])
})
