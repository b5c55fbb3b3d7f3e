import { expect, test } from "bun:test"
import { readFileSync, writeFileSync } from "node:fs"
import { checkListeners, checkPortAddresses } from "./listeners.ts"
import { inputOf, printed } from "./testing/inputs.ts"

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
  const found = (...ports: ReturnType<typeof mapped>[]) => printed(checkListeners(inputOf({ ports })))
  expect(found(mapped(port + 1), mapped(port))).toContain(
    `warning port-taken (pods)
port ${port}/tcp of the host is forwarded to 10.85.0.2:80 (pods/c1/eth0), but ${name} (process ${process.pid}) listens on it
the process gets no connections: the container gets them
stop the process, or change the port of the process or of the container: ss -ltnp sport = :${port} shows the process`,
  )
  expect(found(mapped(port, "udp"))).toEqual([])
  expect(found()).toEqual([])
})

test.each(["conmon", "crio", "podman", "rootlessport", "sleep", "dnsmasq"])(
  "a process that calls itself %s is reported: each process chooses its name",
  (program) => {
    expect(toldAs(program)).toContain(`but ${program} (process ${process.pid}) listens on it`)
  },
)

test("a process forges no line and no colour by its name", () => {
  expect(toldAs("x\nERROR \x1b[31my")).toContain("but x\\u000aERROR \\u001b[31my (process ")
})

/** Returns the findings while this process has another name; proc_pid_comm(5). */
function toldAs(program: string): string {
  using server = Bun.listen({ hostname: "0.0.0.0", port: 0, socket: { data() {} } })
  writeFileSync("/proc/self/comm", program)
  try {
    const { port } = server
    return checkListeners(inputOf({ ports: [mapped(port)] }))
      .map(({ what }) => what)
      .join("\n")
  } finally {
    writeFileSync("/proc/self/comm", name)
  }
}

test("a published port at an address that the host does not have", () => {
  const found = (hostPort: string) => printed(checkPortAddresses(inputOf({ ports: [{ ...mapped(8080), hostPort }] })))
  expect(found("203.0.113.9:8080/tcp")).toEqual([
    `warning port-address-missing (pods)
port 203.0.113.9:8080/tcp is forwarded to 10.85.0.2:80 (pods/c1/eth0), but the host does not have 203.0.113.9
other machines find no host with this address, unless they have a route to it through this host
publish the port at an address of the host, or at all of them: ip -brief address lists them`,
  ])
  expect(found("[2001:db8::9]:8080/tcp")).toHaveLength(1)
  for (const hostPort of ["8080/tcp", "127.0.0.2:8080/tcp"]) expect(found(hostPort)).toEqual([])
})
