import { expect, test } from "bun:test"
import { readDaemonSet, readDeployment } from "../deploy/manifests.ts"
import { Schemas } from "./schemas.ts"

/** The oldest and the newest version of Kubernetes for which the manifests are checked. */
const versions = ["1.29.0", "1.37.0"]

test.each(versions)(
  "every manifest is as the schemas of Kubernetes %s have it",
  async (of) => {
    const schemas = await Schemas.of(of)
    for (const object of await readDeployment())
      expect({ kind: object.kind, faults: await schemas.faultsOf(object) }).toEqual({ kind: object.kind, faults: [] })
  },
  300_000,
)

test("a key that is misspelled, and a value of another type, are faults", async () => {
  const schemas = await Schemas.of("1.37.0")
  const object = await readDaemonSet()
  const [container] = object.spec.template.spec.containers
  Object.assign(container ?? {}, { imagePullPolice: "Never" })
  Object.assign(object.spec.template.spec.initContainers[0]?.securityContext ?? {}, { runAsUser: "0" })
  const faults = await schemas.faultsOf(object)
  expect(faults.join("\n")).toMatch(/imagePullPolice/)
  expect(faults.join("\n")).toMatch(/runAsUser must be integer/)
})
