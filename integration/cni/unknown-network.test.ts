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

test.each([
  [["add", "pdos", "NETNS"]],
  [["check", "pdos", "NETNS"]],
  [["del", "pdos", "NETNS"]],
  [["del", "pdos", "NETNS", "--container-id", "c1"]],
  [["status", "pdos"]],
  [["gc", "pdos", "--auto"]],
  [["trace", "pdos", "NETNS", "--to", "10.85.0.1"]],
  [["test", "pdos"]],
  [["diff", "pdos", "NETNS"]],
  [["dry-run", "ADD", "pdos"]],
  [["ipam", "release", "pdos", "--address", "10.85.0.2"]],
  [["dhcp", "ls", "pdos"]],
  [["log", "--network", "pdos"]],
  [["reattach", "pdos"]],
])("so does cni %p", async (words) => {
  await using lab = await NodeLab.create()
  await lab.cni(["recorder", "on"])
  const pod = await lab.addPod()
  const { exitCode, stdout, stderr } = await lab.cni(words.map((word) => (word === "NETNS" ? pod.path : word)))
  expect({ exitCode, stdout }).toEqual({ exitCode: 1, stdout: "" })
  expect(stderr).toMatch(/"pdos".*there are "pods"/)
})
