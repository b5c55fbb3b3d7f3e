/** A page in Markdown as text: `import page from "../cmd/README.md" with { type: "text" }`. */
declare module "*.md" {
  const page: string
  export default page
}
