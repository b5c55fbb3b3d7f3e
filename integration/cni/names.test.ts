import { expect, test } from "bun:test"
import { NodeLab, podsNetwork } from "./node-lab.ts"

const id = "0123456789abcdef".repeat(4)

test("a container has the same names in every command: namespace, ID, NAMESPACE/POD, NETWORK/ID/IFNAME", async () => {
  await using lab = await NodeLab.create()
  const pod = await lab.addPod("web", "pods", id)
  for (const name of [pod.path, id, id.slice(0, 12), "shop/web", `pods/${id}/eth0`]) {
    const lines = [
      ["check", "pods", name],
      ["diff", "pods", name],
      ["trace", "pods", name, "--to", "10.85.0.1"],
      ["gc", "pods", "--keep", name],
      ["reattach", name],
    ]
    for (const line of lines) {
      const { exitCode, stdout, stderr } = await lab.cni(line)
      expect({ line, exitCode, stderr, said: stdout !== "" }).toEqual({ line, exitCode: 0, stderr: "", said: true })
    }
    const completed = await lab.cni(["__complete", "del", "pods", name.slice(0, 4)])
    if (name === id) expect(completed.stdout).toBe(`${id}\n`)
    const detached = await lab.cni(["del", "pods", name, "--json"])
    expect(JSON.parse(detached.stdout)).toEqual({ network: "pods", containerId: id, ifName: "eth0", detached: true })
    expect((await pod.tryExec("ip", ["link", "show", "eth0"])).exitCode).toBe(1)
    await lab.cni(["add", "pods", pod.path, "--container-id", id], {
      CNI_ARGS: "IgnoreUnknown=1;K8S_POD_NAMESPACE=shop;K8S_POD_NAME=web",
    })
  }
  const other = { ...podsNetwork.plugins[0], bridge: "cni1", ipam: { type: "host-local", subnet: "10.87.0.0/24" } }
  await lab.writeNetwork("20-other.conflist", { ...podsNetwork, name: "other", plugins: [other] })
  await lab.cni(["add", "other", "shop/web", "--ifname", "net1"])
  const { stdout } = await pod.exec("ip", ["-json", "address", "show", "net1"])
  expect(JSON.parse(stdout)[0].addr_info[0].local).toBe("10.87.0.2")
})

test("a name that no container has is an error of every command, and changes nothing", async () => {
  await using lab = await NodeLab.create()
  const pod = await lab.addPod("web", "pods", id)
  await lab.cni(["recorder", "on"])
  const links = async () => (await lab.host.exec("ip", ["-json", "link"])).stdout
  const before = await links()
  for (const typo of ["TYPO", "/run/netns/TYPO", "shop/wbe", `pods/${id}/eth7`]) {
    const lines = [
      ["add", "pods", typo],
      ["check", "pods", typo],
      ["del", "pods", typo],
      ["diff", "pods", typo],
      ["trace", "pods", typo, "--to", "10.85.0.1"],
      ["test", "pods", "--containers", `${typo},${id}`],
      ["gc", "pods", "--keep", typo],
      ["ipam", "release", "pods", "--container", typo],
      ["log", "--container", typo],
      ["reattach", typo],
    ]
    for (const line of lines) {
      const { exitCode, stdout, stderr } = await lab.cni(line)
      expect({ line, exitCode, stdout }).toEqual({ line, exitCode: 1, stdout: "" })
      expect(stderr).toContain(`Cannot find container "${typo}": `)
    }
  }
  expect(await links()).toBe(before)
  expect((await pod.exec("ip", ["link", "show", "eth0"])).exitCode).toBe(0)
})

test("DEL of a container that is not attached is an error; by the runtime's rules it succeeds, and says that nothing was there", async () => {
  await using lab = await NodeLab.create()
  const pod = await lab.addPod()
  const free = await lab.host.addContainer()
  expect(await lab.cni(["del", "pods", free.path])).toMatchObject({
    exitCode: 1,
    stderr: `cni del: Cannot find interface of container "${free.path}" in network "pods": it is attached to no network\n`,
  })
  const byRules = ["del", "pods", "/run/netns/gone", "--container-id", "gone"]
  expect(await lab.cni(byRules)).toMatchObject({
    exitCode: 0,
    stdout: 'eth0 in /run/netns/gone was not attached to network "pods"\n',
  })
  expect((await lab.cni(["del", "pods", pod.path])).exitCode).toBe(0)
  expect((await lab.cni(["del", "pods", pod.path])).exitCode).toBe(1)
})

test("where the records cannot be read, a name is not said to be unknown", async () => {
  await using lab = await NodeLab.create()
  const pod = await lab.addPod()
  await lab.host.exec("chmod", ["o+w", "/var/lib/cni"])
  for (const line of [
    ["check", "pods", pod.path],
    ["del", "pods", "shop/web"],
    ["diff", "pods", "shop/web"],
    ["gc", "pods", "--keep", "shop/web"],
    ["reattach", "shop/web"],
  ])
    expect({ line, ...(await lab.cni(line)) }).toMatchObject({
      ...{ line, exitCode: 1, stdout: "" },
      stderr: expect.stringContaining("Cannot list the attachments: the cache cannot be read: "),
    })
  expect((await pod.exec("ip", ["link", "show", "eth0"])).exitCode).toBe(0)
})
