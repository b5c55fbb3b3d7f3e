import { afterAll, beforeAll, beforeEach } from "bun:test"
import type * as attachment from "../../../pkg/attachment/mod.ts"
import type * as calls from "../../../pkg/attachment/testing/calls.ts"
import type * as libc from "../../../pkg/libc/mod.ts"
import { type ContainerNamespace, HostNamespace } from "../../lab/mod.ts"
import { type Kit, runOnHost } from "./rooms.ts"
import type * as testers from "./tester.ts"

type Attaching = typeof libc & typeof calls & typeof testers & typeof attachment

/** Runs `body` like `runOnHost`, also with the scaffold of interface plugins, a minimal plugin, and calls. */
export function runAttaching<T, Given extends object = object>(
  host: HostNamespace,
  pod: ContainerNamespace,
  body: (kit: Kit & Attaching & Given) => T,
  given?: Given,
  isPowerless = false,
): Promise<T> {
  const rooms = [
    "attachment/mod.ts",
    "libc/mod.ts",
    "attachment/testing/calls.ts",
    "../integration/kernel/pkg/tester.ts",
  ]
  return runOnHost<T, Attaching & Given>(host, pod, body, { more: rooms, ...(given && { given }), isPowerless })
}

export let host: HostNamespace
export let pod: ContainerNamespace
/** Creates a host for the tests of a file, and a container for each test. */
export function useHost(): void {
  beforeAll(async () => {
    host = await HostNamespace.create("attachment")
  })
  beforeEach(async () => {
    pod = await host.addContainer()
  })
  afterAll(() => host[Symbol.asyncDispose]())
}

/** Runs `body` like `runAttaching`, with the container of the test. */
export function onHost<T>(body: Parameters<typeof runAttaching<T>>[2]): Promise<T> {
  return runAttaching(host, pod, body)
}
