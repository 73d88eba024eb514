/** The API's documentation page, embedded: Swagger UI over our own /openapi.json, without a request elsewhere. */
import bundle from "swagger-ui-dist/swagger-ui-bundle.js" with { type: "text" };
import css from "swagger-ui-dist/swagger-ui.css" with { type: "text" };
import type { Assets } from "./assets.ts";

const PAGE = `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>HyperSwap API</title>
<link rel="icon" href="data:,">
<link rel="stylesheet" href="/docs/swagger-ui.css">
</head>
<body>
<div id="docs"></div>
<script src="/docs/swagger-ui-bundle.js"></script>
<script src="/docs/start.js"></script>
</body>
</html>
`;

/** The validator badge would ask a server on the internet. */
const START = `SwaggerUIBundle({ url: "/openapi.json", dom_id: "#docs", deepLinking: true, validatorUrl: null });
`;

/** The page's files by path. */
export const docsAssets: Assets = new Map([
  ["docs/index.html", PAGE],
  ["docs/swagger-ui.css", css],
  ["docs/swagger-ui-bundle.js", bundle],
  ["docs/start.js", START],
]);
