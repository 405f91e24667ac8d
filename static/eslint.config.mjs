// Lints the viewer and the report's page. The rules come from ESLint, typescript-eslint and the rules of hooks.
import js from "@eslint/js";
import hooks from "eslint-plugin-react-hooks";
import tseslint from "typescript-eslint";

export default tseslint.config(
  { ignores: ["report/vite.config.ts"] },
  {
    files: ["src/**/*.{ts,tsx}", "report/*.ts"],
    extends: [js.configs.recommended, tseslint.configs.recommendedTypeChecked],
    plugins: { "react-hooks": hooks },
    languageOptions: { parserOptions: { project: "./tsconfig.json" } },
    rules: {
      "react-hooks/rules-of-hooks": "error",
      "@typescript-eslint/consistent-type-imports": "error",
      "@typescript-eslint/no-non-null-assertion": "error",
      eqeqeq: "error",
      "@typescript-eslint/no-empty-object-type": ["error", { allowInterfaces: "with-single-extends" }], // of the state
    },
  },
  {
    files: ["src/app/*.ts"],
    rules: {
      "no-restricted-imports": [
        "error",
        {
          patterns: [{ regex: "^\\.\\./(?!\\.\\./)", message: "app/ is the ground floor: it knows nothing above it." }],
        },
      ],
    },
  },
  // Arithmetic over arrays of known length: a loop's bounds keep its indices inside, and a check in each step costs time.
  {
    files: ["src/{maps,heads,saving,opened}/*.ts", "src/views/text/{arcs,rows}.ts", "report/*.ts"],
    rules: { "@typescript-eslint/no-non-null-assertion": "off" },
  },
);
