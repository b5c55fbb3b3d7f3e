import { expect, test } from "bun:test"
import { readFileSync, statSync, symlinkSync, writeFileSync } from "node:fs"
import { NodeLab, podsNetwork } from "./node-lab.ts"

const SECRETS = ["hunter2", "s3cr3t-token", "user-of-url", "p4ssw0rd"]
const network = {
  ...podsNetwork,
  plugins: [
    {
      ...podsNetwork.plugins[0],
      password: SECRETS[0],
      "example.com/settings": [
        { authToken: { value: SECRETS[1] } },
        `https://${SECRETS[2]}:${SECRETS[3]}@registry.example/x`,
      ],
    },
    podsNetwork.plugins[1],
  ],
}

const ways: readonly (readonly string[])[] = [
  ["graph", "-o", "svg"],
  ["graph", "-o", "json"],
  ["graph", "-o", "wide"],
]

test("neither a picture nor a bundle has a secret of a configuration, or a user and a password of a URL [S304]", async () => {
  await using lab = await NodeLab.create(network)
  await lab.addPod()
  for (const words of ways) {
    const { stdout, exitCode } = await lab.cni(words)
    expect({ words, exitCode, found: SECRETS.filter((each) => stdout.includes(each)) }).toEqual({
      ...{ words, exitCode: 0, found: [] },
    })
  }
  const svg = (await lab.cni(["graph", "-o", "svg"])).stdout
  expect(svg).toContain("//(removed)@registry.example/x")
  const tar = lab.directory.join("node.tar")
  expect((await lab.cni(["doctor", "--bundle", tar])).exitCode).toBe(0)
  const content = readFileSync(tar, "latin1")
  expect(SECRETS.filter((each) => content.includes(each))).toEqual([])
  expect(content).toContain("//(removed)@registry.example/x")
})

test.each([[["graph", "--write"]], [["doctor", "--bundle"]]])(
  "a file of %p is its owner's alone, takes the place of an older one, and never goes where a link leads [S305]",
  async (words) => {
    await using lab = await NodeLab.create()
    await lab.addPod()
    const [file, link, target] = ["old", "link", "target"].map((name) => lab.directory.join(name)) as [
      string,
      string,
      string,
    ]
    writeFileSync(file, "an earlier one", { mode: 0o644 })
    const before = statSync(file).ino
    expect(await lab.cni([...words, file])).toMatchObject({ exitCode: 0 })
    expect(statSync(file).mode & 0o777).toBe(0o600)
    expect(statSync(file).ino).not.toBe(before)
    writeFileSync(target, "of another program")
    symlinkSync(target, link)
    expect(await lab.cni([...words, link])).toMatchObject({
      exitCode: 1,
      stderr: expect.stringContaining("not a regular file"),
    })
    expect(readFileSync(target, "utf8")).toBe("of another program")
  },
)
