// Draws the API's specification with its try-out. What is tried out is sent with the visitor's session.
"use strict";

const place = document.getElementById("api-docs");
window.SwaggerUIBundle({
  url: place.dataset.spec,
  domNode: place,
  deepLinking: true,
  docExpansion: "list",
  defaultModelsExpandDepth: 0,
  validatorUrl: null, // it would send the address to a server elsewhere
});
