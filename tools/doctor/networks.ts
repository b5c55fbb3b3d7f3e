import { basename, stat, unlessErrno } from "../../pkg/libc/mod.ts"
import { contains, parseCidr } from "../../pkg/types/mod.ts"
import { describedPlugins } from "../../suite/plugins.ts"
import type { NodeAttachment } from "../node/mod.ts"
import { type Check, cniCommand, containerLinks, type DoctorInput, type Finding } from "./finding.ts"
import { NEARLY_FULL } from "./kernel.ts"
import { sh } from "./remedy.ts"

/** Finds network files that no runtime can use, and files that hide one another. */
export const checkFiles: Check = ({ node: { networks, places, unread } }) => {
  const broken = networks.flatMap(({ file, error }): Finding[] =>
    error === undefined
      ? []
      : [
          {
            rule: "config-broken",
            severity: "error",
            what: `"${file}" cannot be used: ${error}`,
            why: "runtimes skip it, or load no network at all",
            remedy: `correct the file, or move it away: ${sh`cni lint ${file}`.line} prints the line and the column`,
            affected: [{ name: `"${file}"` }],
          },
        ],
  )
  const names = Map.groupBy(
    networks.filter(({ network }) => network),
    ({ network }) => network?.name ?? "",
  )
  const twice = [...names].flatMap(([network, found]): Finding[] => {
    const files = found.map(({ file }) => basename(file))
    if (files.length < 2) return []
    return [
      {
        rule: "config-twice",
        severity: "warning",
        network,
        what: `network "${network}" is in ${files.join(" and in ")} of ${places.confDir}`,
        why: `"${files[0]}" takes effect, and changes of the others do not`,
        remedy: `rename one of the networks, or move the unintended file away: ${found.map(({ file }) => file).join(", ")}`,
      },
    ]
  })
  const none: Finding[] =
    networks.length > 0 || unread.some(({ what }) => what === "networks")
      ? []
      : [
          {
            rule: "config-none",
            severity: "error",
            what: `no network configuration in "${places.confDir}"`,
            why: 'kubelet reports "NetworkReady=false ... cni plugin not initialized", and starts no pods',
            remedy: `write one, such as the example of man cni-bridge, to ${places.confDir}/10-pods.conflist; or name the runtime's directory with --conf-dir`,
          },
        ]
  return [...none, ...broken, ...twice]
}

const WRITABLE_BY_OTHERS = 0o022

/** Finds network files, and directories of such files, that users other than root can change. */
export const checkExposedFiles: Check = ({ node: { networks, places } }) =>
  [places.confDir, ...networks.map(({ file }) => file)].flatMap((file): Finding[] => {
    const found = unlessErrno(() => stat(file), "ENOENT", "ENOTDIR", "EACCES")
    if (!found || (found.user === 0 && (found.mode & WRITABLE_BY_OTHERS) === 0)) return []
    const files = [file]
    return [
      {
        rule: "config-exposed",
        severity: "warning",
        cause: places.confDir,
        affected: [{ name: `"${file}"` }],
        what: `"${file}" (mode ${(found.mode & 0o7777).toString(8)}, user ${found.user}) can be changed by users other than root`,
        ofMany: (count) => `${count} files of networks in "${places.confDir}" can be changed by users other than root`,
        why: "the runtime acts on a network's file as root, for every container",
        remedy: sh`chown root:root ${files}; chmod go-w ${files}`,
      },
    ]
  })

/** Finds networks whose address ranges overlap. */
export const checkSubnets: Check = ({ node: { networks } }) => {
  const subnets = networks.flatMap(({ file, network, pools }) =>
    pools
      .flatMap(({ rangeSets }) => rangeSets.flat())
      .flatMap((range) => {
        const text = subnetOf(range)
        const cidr = parseCidr(text)
        return network && cidr ? [{ file, network: network.name, text, cidr }] : []
      }),
  )
  return subnets.flatMap((one, at) =>
    subnets.slice(at + 1).flatMap((other): Finding[] => {
      if (one.network === other.network || !overlap(one.cidr, other.cidr)) return []
      return [
        {
          rule: "subnets-overlap",
          severity: "error",
          network: one.network,
          what: `networks "${one.network}" (${one.text}) and "${other.network}" (${other.text}) overlap`,
          why: "containers of both get the same addresses, and the host sends packets for one to the other",
          remedy: `give one of them another subnet, in ${one.file} or ${other.file}`,
          affected: [{ name: `"${one.network}"` }, { name: `"${other.network}"` }],
          ofMany: () => `networks "${one.network}" (${one.text}) and "${other.network}" (${other.text}) overlap`,
        },
      ]
    }),
  )
}

type Cidr = NonNullable<ReturnType<typeof parseCidr>>
type Pools = DoctorInput["node"]["networks"][number]["pools"]
type Range = Pools[number]["rangeSets"][number][number]

function subnetOf({ subnet }: Range): string {
  return subnet
}

function overlap(a: Cidr, b: Cidr): boolean {
  return a.ip.length === b.ip.length && (contains(a, b.ip) || contains(b, a.ip))
}

/** The plugins whose containers have addresses of the host's LAN, so that a host route to that network is intended. */
const ON_THE_LAN = new Set(describedPlugins.filter(({ isOnLan }) => isOnLan).map(({ name }) => name))

/** Finds host routes to containers' networks that use another interface. */
export const checkRoutes: Check = (input) => {
  const own = new Set(containerLinks(input))
  return input.node.networks.flatMap(({ file, network, pools }) => {
    if (!network || network.plugins.some(({ type }) => ON_THE_LAN.has(type))) return []
    return pools
      .flatMap(({ rangeSets }) => rangeSets.flat())
      .flatMap((range) => {
        const subnet = parseCidr(subnetOf(range))
        const clash = input.node.routes.find(({ dst, dev, isClosed }) => {
          const cidr = parseCidr(dst)
          if (!subnet || !cidr || cidr.prefix === 0 || own.has(dev ?? "")) return false
          // A route that drops packets to unused private addresses may be wider than the containers' subnet.
          return !(isClosed && cidr.prefix < subnet.prefix) && overlap(subnet, cidr)
        })
        if (!clash) return []
        const finding: Finding = {
          rule: "route-overlap",
          severity: "error",
          network: network.name,
          what: `the host's route to ${clash.dst} ${wayOf(clash)} overlaps ${subnetOf(range)} of network "${network.name}"`,
          why: "either the containers or the route's destination cannot be reached",
          remedy: `give the network another subnet, in ${file}, or change the route`,
          consequenceOf: ["bridge-renamed"],
        }
        return [finding]
      })
  })
}

function wayOf({ dev, gateway, isClosed = false }: DoctorInput["node"]["routes"][number]): string {
  return isClosed ? "that drops packets" : `by ${dev ?? gateway}`
}

/** Finds full and nearly full address ranges of host-local. */
export const checkPools: Check = (input) =>
  input.node.stores.flatMap(({ network, rangeSets }) =>
    rangeSets.flatMap(({ ranges, used, total, reclaimable }): Finding[] => {
      if (total === 0n || used < NEARLY_FULL * Number(total)) return []
      const isFull = BigInt(used - reclaimable) >= total
      return [
        {
          rule: isFull ? "pool-full" : "pool-nearly-full",
          severity: isFull ? "error" : "warning",
          network,
          what: `${used} of ${total} addresses of ${ranges} are used (${Math.round((100 * used) / Number(total))} %)`,
          why: isFull ? "further containers get no address" : "containers get no address when the pool is full",
          ...poolRemedy(input, network, { used, total: Number(total) }),
        },
      ]
    }),
  )

/** Returns the remedy for a full address range: GC of deleted containers' addresses, or more addresses. */
function poolRemedy(
  input: DoctorInput,
  network: string,
  { used, total }: { used: number; total: number },
): Pick<Finding, "remedy" | "note"> {
  const hasStaleLease = ({ orphan }: NodeAttachment) => orphan.some((reason) => reason.startsWith("lease"))
  const stale = input.attachments.filter((one) => one.network === network && hasStaleLease(one)).length
  const list = cniCommand(input, "ipam", ["ls", network]).line
  const gc = cniCommand(input, "gc", [network], ["--auto"])
  if (used - stale < NEARLY_FULL * total)
    return { remedy: gc, note: `${stale} of them belong to deleted containers: ${list} shows which` }
  const file = input.node.networks.find((one) => one.network?.name === network)?.file ?? "its configuration"
  return { remedy: `add a range to "ranges" in ${file}: ${list} shows the holders of the addresses` }
}
