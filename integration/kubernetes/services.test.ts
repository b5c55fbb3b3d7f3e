import { afterAll, beforeAll, describe, expect, test } from "bun:test"
import { hostAddresses } from "../portmap/portmap-lab.ts"
import { captured, capturedFile, captureRules, ServicesLab, service, serviceAnswers } from "../portmap/services-lab.ts"
import { RealApiServer } from "./testing/api-server.ts"
import { KubeProxy, makeServices } from "./testing/kube-proxy.ts"

let services: ServicesLab
let api: RealApiServer

beforeAll(async () => {
  services = await ServicesLab.create()
  api = await RealApiServer.start(services.lab.host, "127.0.0.1")
  const { ip, ip6 } = hostAddresses
  await makeServices(api, { name: "node-1", addresses: [ip, ip6] }, [{ name: "web", ...service }])
}, 600_000)

afterAll(async () => {
  await api?.[Symbol.asyncDispose]()
  await services?.[Symbol.asyncDispose]()
})

describe.each(captured)("kube-proxy in mode %s", (mode) => {
  const start = () => KubeProxy.start(services.lab.host, api, mode, "node-1")

  test("writes what is captured for the other tests", async () => {
    await services.clear()
    await using _proxy = await start()
    for (const family of ["ip", "ip6"] as const) {
      const found = await captureRules(services.lab.host, mode, family)
      const file = capturedFile(mode, family)
      if (process.env.CNI_CAPTURE) await Bun.write(file, found)
      expect(found).toBe(await Bun.file(file).text())
    }
  })

  test("its service wins over a hostPort that was mapped after it [S151]", async () => {
    await services.clear()
    await using _proxy = await start()
    await services.mapGreedily()
    expect(await services.answers()).toEqual(serviceAnswers)
  })

  test("its service wins over a hostPort that was mapped before it, also after it was started again", async () => {
    await services.clear()
    await services.mapGreedily()
    {
      await using _proxy = await start()
      expect(await services.answers()).toEqual(serviceAnswers)
    }
    await using _proxy = await start()
    expect(await services.answers()).toEqual(serviceAnswers)
  })
})
