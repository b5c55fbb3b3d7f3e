import { expect, test } from "bun:test"
import { PowerConsole } from "./power-console.ts"

const answer = (...addresses: string[]) =>
  JSON.stringify({ ips: addresses.map((address) => ({ address: `${address}/28` })) })

/** A console that has shown these lines. */
function shown(...lines: string[]): PowerConsole {
  const console = new PowerConsole()
  for (const line of lines) console.read(line)
  return console
}

test("what has to be deleted after a power cut are attachments whose ADD began and whose DEL was not answered", () => {
  const console = shown(
    "> ADD host-local a1-0",
    `< ADD host-local a1-0 0 ${answer("10.67.0.2")}`,
    "> ADD flannel f1-0",
    "> DEL host-local a1-0",
    "> ADD host-local b1-0",
    `< ADD host-local b1-0 0 ${answer("10.67.0.3")}`,
  )
  expect(console.livingOfAll).toEqual(["host-local,a1-0", "flannel,f1-0", "host-local,b1-0"])
  console.read("< DEL host-local a1-0 0")
  expect(console.livingOfAll).toEqual(["flannel,f1-0", "host-local,b1-0"])
  expect(console.living("host-local")).toEqual(["b1-0"])
  expect(console.faults).toEqual([])
  expect(console.lines).toBe(7)
})

test("what an answered ADD was given is kept until DEL or GC begins, over boots", () => {
  const add = ["> ADD flannel f1-0", `< ADD flannel f1-0 0 ${answer("10.68.0.2")}`]
  const console = shown(...add)
  expect(console.answered("flannel", "this boot")).toEqual(new Map([["f1-0", ["10.68.0.2"]]]))
  console.cut()
  expect(console.answered("flannel", "this boot").size).toBe(0)
  expect(console.answered("flannel", "ever").size).toBe(1)
  expect(console.answered("host-local", "ever").size).toBe(0)
  for (const over of ["> DEL flannel f1-0", "> GC flannel all"]) {
    expect(shown(...add, over).answered("flannel", "ever").size).toBe(0)
  }
})

test("an address that a living container has is a fault, one of before a power cut or of a DEL that has begun is not", () => {
  const first = ["> ADD host-local a1-0", `< ADD host-local a1-0 0 ${answer("10.67.0.2", "fd67::2")}`]
  const second = ["> ADD host-local b1-0", `< ADD host-local b1-0 0 ${answer("10.67.0.3", "fd67::2")}`]
  expect(shown(...first, ...second).faults).toEqual([
    "fd67::2 was given to host-local,b1-0, and host-local,a1-0 has it",
  ])
  expect(shown(...first, "> DEL host-local a1-0", ...second).faults).toEqual([])
  const console = shown(...first)
  console.cut()
  for (const line of second) console.read(line)
  expect(console.faults).toEqual([])
})

test("a call that fails, an ADD without an address, and what the machine itself says are faults; lines of the kernel are not", () => {
  const { faults, lines } = shown(
    "[    1.2] EXT4-fs (vda): recovery complete",
    '< DEL host-local a1-0 1 { "code": 11 }',
    "< ADD host-local a1-1 0 {}",
    "! the disk cannot be mounted",
  )
  expect(faults).toEqual([
    'DEL of host-local for a1-0 ended with 1: { "code": 11 }',
    "ADD of host-local,a1-1 answered without an address",
    "the disk cannot be mounted",
  ])
  expect(lines).toBe(2)
})
