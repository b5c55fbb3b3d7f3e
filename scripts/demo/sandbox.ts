import { type ContainerNamespace, connect, HostNamespace } from "../../integration/lab/mod.ts"

/** The addresses of the simulated internet and of the host's uplink; TEST-NET-3, RFC 5737. */
export const internetAddress = "203.0.113.9"
export const hostAddress = "203.0.113.1"

/** The namespaces of the demo: a host, the internet beyond it, and two containers without a network. */
export interface Sandbox {
  readonly host: HostNamespace
  readonly internet: ContainerNamespace
  readonly a: ContainerNamespace
  readonly b: ContainerNamespace
}

/**
 * Creates the namespaces. The internet has no route to the containers, so that only masqueraded packets get replies.
 */
export async function makeSandbox(stack: AsyncDisposableStack): Promise<Sandbox> {
  const host = stack.use(await HostNamespace.create("demo"))
  const internet = await host.addContainer("internet")
  await connect(
    { namespace: host, link: "uplink", addresses: [`${hostAddress}/24`] },
    { namespace: internet, link: "eth0", addresses: [`${internetAddress}/24`] },
  )
  await host.exec("ip", ["route", "add", "default", "via", internetAddress])
  return { host, internet, a: await host.addContainer("a"), b: await host.addContainer("b") }
}
