import { expect, test } from "bun:test"
import { readFileSync, writeFileSync } from "node:fs"
import { checkListeners } from "./listeners.ts"
import { patientOf, told } from "./testing/patients.ts"

const mapped = (port: number, protocol = "tcp") => ({
  hostPort: `${port}/${protocol}`,
  port,
  protocol,
  to: "10.85.0.2:80",
  owner: "pods/c1/eth0",
})
const name = readFileSync("/proc/self/comm", "utf8").trim()

test.each(["0.0.0.0", "::"])("a published port that a process of the host listens on, at %s", (hostname) => {
  using server = Bun.listen({ hostname, port: 0, socket: { data() {} } })
  const { port } = server
  const found = (...ports: ReturnType<typeof mapped>[]) => told(checkListeners(patientOf({ ports })))
  expect(found(mapped(port + 1), mapped(port))).toContain(
    `warning port-taken (pods)
port ${port}/tcp of the host leads to 10.85.0.2:80 (pods/c1/eth0), and ${name} (process ${process.pid}) listens on it
the process gets no connections: they go to the container
stop the process, or choose another port for one of the two: ss -ltnp sport = :${port} shows the process`,
  )
  expect(found(mapped(port, "udp"))).toEqual([])
  expect(found()).toEqual([])
})

test.each([
  ["conmon", false],
  ["crio", false],
  ["podman", false],
  ["rootlessport", false],
  ["sleep", false],
  ["dnsmasq", true],
])("%s listens for itself, and not to keep the port free: %p", (program, isTaken) => {
  using server = Bun.listen({ hostname: "0.0.0.0", port: 0, socket: { data() {} } })
  const { port } = server
  writeFileSync("/proc/self/comm", program) // proc_pid_comm(5): this process has that name now
  try {
    const taken = `port ${port}/tcp of the host leads to 10.85.0.2:80 (pods/c1/eth0), and ${program} (process ${process.pid}) listens on it`
    const found = checkListeners(patientOf({ ports: [mapped(port)] })).map(({ what }) => what)
    expect(found).toEqual(isTaken ? [taken] : [])
  } finally {
    writeFileSync("/proc/self/comm", name)
  }
})
