import { describe, expect, test } from "bun:test"
import { succeed } from "../lab/mod.ts"
import { captured, freePort, ServicesLab, serviceAnswers } from "./services-lab.ts"

// The rules are those of a real kube-proxy. `npm run test:kubernetes` captures them, and runs the same tests with
// kube-proxy itself.
describe.each(captured)("a hostPort beside kube-proxy's rules in mode %s", (mode) => {
  test("loses to a service when it is mapped last [S150]", async () => {
    await using services = await ServicesLab.create()
    await services.loadCaptured(mode)
    await services.mapGreedily()
    expect(await services.answers()).toEqual(serviceAnswers)
  })

  test("loses to a service when it is mapped first", async () => {
    await using services = await ServicesLab.create()
    await services.mapGreedily()
    await services.loadCaptured(mode)
    expect(await services.answers()).toEqual(serviceAnswers)
  })

  test("loses to a service when its table is re-created", async () => {
    await using services = await ServicesLab.create()
    await services.mapGreedily()
    await services.loadCaptured(mode)
    for (const family of ["ip", "ip6"])
      await services.lab.host.exec("nft", ["delete", "table", family, "cni_hostports"])
    await services.mapGreedily()
    expect(await services.answers()).toEqual(serviceAnswers)
  })

  test("has its own port while no service has it", async () => {
    await using services = await ServicesLab.create()
    await services.loadCaptured(mode)
    await succeed(services.mapped.map([{ hostPort: freePort, containerPort: 80, protocol: "tcp" }]))
    expect(new Set(Object.values(await services.answers(freePort)))).toEqual(new Set(["mapping"]))
  })
})
