import { basename } from "node:path"
import { contains, parseCidr } from "../../pkg/types/mod.ts"
import { plugins } from "../../suite/plugins.ts"
import { type Check, containerLinks, type Finding, type Patient } from "./finding.ts"

/** A pool of which this share is used is nearly empty. */
const NEARLY_FULL = 0.8

/** Files that no runtime can use, or that hide one another. */
export const checkFiles: Check = ({ node: { networks, places, unread } }) => {
  const broken = networks.flatMap(({ file, error }): Finding[] =>
    error === undefined
      ? []
      : [
          {
            rule: "config-broken",
            severity: "error",
            what: `"${file}" cannot be used: ${error}`,
            why: "runtimes skip it, or take no network at all",
            remedy: `cni lint ${file}`,
          },
        ],
  )
  const names = new Map<string, string[]>()
  for (const { file, network } of networks) if (network) names.getOrInsert(network.name, []).push(basename(file))
  const twice = [...names].flatMap(([network, files]): Finding[] =>
    files.length < 2
      ? []
      : [
          {
            rule: "config-twice",
            severity: "warning",
            network,
            what: `network "${network}" is in ${files.join(" and in ")} of ${places.confDir}`,
            why: `"${files[0]}" counts, and changes of the others do nothing`,
            remedy: "rename one of the networks, or remove its file",
          },
        ],
  )
  const none: Finding[] =
    networks.length > 0 || unread.some(({ what }) => what === "networks")
      ? []
      : [
          {
            rule: "config-none",
            severity: "error",
            what: `there is no network configuration in "${places.confDir}"`,
            why: 'kubelet says "NetworkReady=false ... cni plugin not initialized", and takes no pods',
            remedy: `write one, such as README.md has, to ${places.confDir}/10-pods.conflist; or name the runtime's directory by --conf-dir`,
          },
        ]
  return [...none, ...broken, ...twice]
}

/** Networks whose containers share addresses. */
export const checkSubnets: Check = ({ node: { networks } }) => {
  const subnets = networks.flatMap(({ network, pools }) =>
    pools
      .flatMap(({ rangeSets }) => rangeSets.flat())
      .flatMap((range) => {
        const text = subnetOf(range)
        const cidr = parseCidr(text)
        return network && cidr ? [{ network: network.name, text, cidr }] : []
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
          remedy: "give one of them another subnet",
        },
      ]
    }),
  )
}

type Cidr = NonNullable<ReturnType<typeof parseCidr>>
type Pools = Patient["node"]["networks"][number]["pools"]
type Range = Pools[number]["rangeSets"][number][number]

function subnetOf({ subnet }: Range): string {
  return subnet
}

function overlap(a: Cidr, b: Cidr): boolean {
  return a.ip.length === b.ip.length && (contains(a, b.ip) || contains(b, a.ip))
}

/** The plugins whose addresses are of the network around the host: its routes are the same on purpose. */
const ON_THE_LAN = new Set(plugins.filter(({ isOnLan }) => isOnLan).map(({ plugin }) => plugin.name))

/** Routes of the host into a network of containers that lead elsewhere. */
export const checkRoutes: Check = (patient) => {
  const own = new Set(containerLinks(patient))
  return patient.node.networks.flatMap(({ network, pools }) => {
    if (!network || network.plugins.some(({ type }) => ON_THE_LAN.has(type))) return []
    return pools
      .flatMap(({ rangeSets }) => rangeSets.flat())
      .flatMap((range) => {
        const subnet = parseCidr(subnetOf(range))
        const clash = patient.node.routes.find(({ dst, dev }) => {
          const cidr = parseCidr(dst)
          return subnet && cidr && cidr.prefix > 0 && !own.has(dev ?? "") && overlap(subnet, cidr)
        })
        if (!clash) return []
        const finding: Finding = {
          rule: "route-overlap",
          severity: "error",
          network: network.name,
          what: `the host's route to ${clash.dst} by ${clash.dev ?? clash.gateway} overlaps ${subnetOf(range)} of network "${network.name}"`,
          why: "either the containers or what is behind that route cannot be reached",
          remedy: "give the network another subnet, or remove the route",
        }
        return [finding]
      })
  })
}

/** Checks the use of host-local's ranges. */
export const checkPools: Check = ({ node: { stores } }) =>
  stores.flatMap(({ network, rangeSets }) =>
    rangeSets.flatMap(({ ranges, used, total, reclaimable }): Finding[] => {
      if (total === 0n || used < NEARLY_FULL * Number(total)) return []
      const isFull = BigInt(used - reclaimable) >= total
      return [
        {
          rule: isFull ? "pool-full" : "pool-nearly-full",
          severity: isFull ? "error" : "warning",
          network,
          what: `${used} of ${total} addresses of ${ranges} are used (${Math.round((100 * used) / Number(total))} %)`,
          why: isFull ? "no further container gets an address" : "containers get none when it is full",
          remedy: `cni ipam ls ${network} shows who holds them; cni gc ${network} --auto frees those of containers that are gone; or add a range`,
        },
      ]
    }),
  )
