import { expect, test } from "bun:test"
import { NodeLab, podsNetwork } from "./node-lab.ts"

const ipam = { type: "host-local", ranges: [[{ subnet: "10.87.0.0/24" }]] }
const other = { ...podsNetwork.plugins[0], bridge: "cni1", ipam }

test.each([[["ps"]], [["graph"]], [["doctor"]], [["ipam", "ls"]], [["reconcile"]]])(
  "cni %p of a network that does not exist fails, and lists those that do",
  async (words) => {
    await using lab = await NodeLab.create()
    await lab.addPod()
    await lab.writeNetwork("20-other.conflist", { ...podsNetwork, name: "other", plugins: [other] })
    expect(await lab.cni([...words, "pdos"])).toMatchObject({
      exitCode: 1,
      stdout: "",
      stderr: expect.stringContaining(
        'Cannot find network "pdos": no configuration and no attachment has the name, did you mean "pods"?; there are "other", "pods"\n',
      ),
    })
    for (const name of ["pods", "other"]) {
      const { exitCode, stderr } = await lab.cni([...words, name])
      expect({ name, exitCode, stderr }).toEqual({ name, exitCode: 0, stderr: "" })
    }
  },
)
