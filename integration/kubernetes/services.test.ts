import { afterAll, beforeAll, describe, expect, test } from "bun:test"
import { adminToken, type ClusterApi, FakeClusterApi } from "../agent/testing/api.ts"
import {
  expectNoEcho,
  type Figure,
  type HostNamespace,
  mustRun,
  scaleTimeout,
  succeed,
  tellFigure,
} from "../lab/mod.ts"
import { hostAddresses } from "../portmap/portmap-lab.ts"
import {
  askers,
  captured,
  capturedFile,
  captureRules,
  freePort,
  ServicesLab,
  service,
  serviceAnswers,
} from "../portmap/services-lab.ts"
import { RealApiServer } from "./testing/api-server.ts"
import { KubeProxy, makeNode, makeService, type ProxyMode } from "./testing/kube-proxy.ts"

/**
 * Whether only mode ipvs is tested. `services.ts` tests this mode in a virtual machine, because it needs kernel
 * modules.
 */
const isIpvs = process.env.CNI_TEST_KUBE_PROXY === "ipvs"
if (!isIpvs) console.log("not tested here: kube-proxy in mode ipvs, which npm run test:services runs")

const node = "node-1"
let services: ServicesLab
let api: ClusterApi

beforeAll(async () => {
  if (isIpvs) await mustRun(["modprobe", "-a", "br_netfilter", "ip_vs", "ip_vs_rr", "ip_set", "xt_set", "dummy"])
  services = await ServicesLab.create()
  api = await startApi(services.lab.host)
  const { ip, ip6 } = hostAddresses
  await makeNode(api, node, [ip, ip6])
  await makeService(api, node, { name: "web", ...service })
}, scaleTimeout(600_000))

afterAll(async () => {
  await api?.[Symbol.asyncDispose]()
  await services?.[Symbol.asyncDispose]()
})

/** Starts an API server. Mode ipvs uses the fake API server, because a real one is too slow on an emulated machine. */
async function startApi(host: HostNamespace): Promise<ClusterApi> {
  if (!isIpvs) return await RealApiServer.start(host, "127.0.0.1")
  const fake = await FakeClusterApi.start(host, "127.0.0.1")
  await fake.trouble({ tokens: [adminToken, ""] }) // without TLS kube-proxy sends no token
  return fake
}

function start(mode: ProxyMode): Promise<KubeProxy> {
  return KubeProxy.start(services.lab.host, api, mode, node)
}

/** The order of events on a node before the packets arrive. */
const orders = {
  "the service first": ["kube-proxy", "pod"],
  "the pod first": ["pod", "kube-proxy"],
  "kube-proxy restarted": ["pod", "kube-proxy", "kube-proxy"],
  "all rules flushed, restored after kube-proxy's": ["pod", "kube-proxy", "flush", "kube-proxy", "reconcile"],
  "all rules flushed, restored before kube-proxy's": ["pod", "kube-proxy", "flush", "reconcile", "kube-proxy"],
} as const

/** Returns a row of the results: the container that got the packets in `order`, in both families. */
function rowOf(mode: ProxyMode, order: string, answers: Readonly<Record<string, string>>): Figure {
  const cells = [[hostAddresses.ip, hostAddresses.ip6], service.clusterIps].flatMap((addresses) =>
    askers.map((who) => [...new Set(addresses.map((address) => answers[`${who} to ${address}`]))].join(", ")),
  )
  const all = Object.values(answers)
  const held = all.filter((answer) => answer === "service").length
  return { what: `${mode} | ${order}`, tried: all.length, held, note: cells.join(" | ") }
}

/** The expected answers in mode ipvs: kube-proxy accepts packets for ClusterIPs first, but not for NodePorts. */
const clusterIpAnswers = Object.fromEntries(
  Object.keys(serviceAnswers).map((what) => [
    what,
    service.clusterIps.some((address) => what.endsWith(` ${address}`)) ? "service" : "mapping",
  ]),
)

describe.each(isIpvs ? (["ipvs"] as const) : captured)("kube-proxy in mode %s", (mode) => {
  test.each(Object.entries(orders))("its service wins over a hostPort: %s [S151]", async (order, steps) => {
    await services.clear()
    await using owned = new AsyncDisposableStack()
    let proxy: KubeProxy | undefined
    for (const step of steps) {
      if (step === "pod") await services.mapGreedily()
      else if (step === "flush") await services.lab.host.exec("nft", ["flush", "ruleset"])
      else if (step === "reconcile") await services.reconcile()
      else {
        await proxy?.[Symbol.asyncDispose]()
        proxy = owned.use(await start(mode))
      }
    }
    // portmap moves mappings to iptables if they were made before kube-proxy worked in mode ipvs.
    if (isIpvs) await services.reconcile()
    const answers = await services.answers()
    await tellFigure(rowOf(mode, order, answers))
    expect(answers).toEqual(mode === "ipvs" ? clusterIpAnswers : serviceAnswers)
    expect(new Set(Object.values(await services.answers(freePort)))).toEqual(new Set(["mapping"]))
  })

  test("a service without endpoints keeps its ClusterIPs, and leaves its NodePort to a hostPort", async () => {
    await services.clear()
    const [nodePort, port] = [30082, 8082]
    const clusterIps = ["10.96.0.82", "fd00:96::82"]
    const empty = { name: "empty", clusterIps, nodePort, port, endpoints: [], endpointPort: 80 }
    await using _service = await makeService(api, node, empty)
    await using _proxy = await start(mode)
    const all = { containerPort: 80, protocol: "tcp" } as const
    const ofService = clusterIps.map((hostIP) => ({ ...all, hostIP, hostPort: port }))
    await succeed(services.mapped.map([{ ...all, hostPort: nodePort }, { ...all, hostPort: port }, ...ofService]))
    expect(new Set(Object.values(await services.answers(nodePort)))).toEqual(new Set(["mapping"]))
    const { outside, host } = services.lab
    for (const from of [outside, host, services.other.namespace])
      for (const address of clusterIps) await expectNoEcho(from, { transport: "tcp", address, port })
  })
})

if (!isIpvs)
  test.each(captured)("kube-proxy in mode %s writes what is captured for the other tests", async (mode) => {
    await services.clear()
    await using _proxy = await start(mode)
    for (const family of ["ip", "ip6"] as const) {
      const found = await captureRules(services.lab.host, mode, family)
      const file = capturedFile(mode, family)
      if (process.env.CNI_CAPTURE) await Bun.write(file, found)
      expect(found).toBe(await Bun.file(file).text())
    }
  })
