document.querySelector("#app")!.textContent = "headscope";
