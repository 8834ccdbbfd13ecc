package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/rayslice/rayslice"
	"github.com/rayslice/rayslice/handlers"
	"github.com/rayslice/rayslice/k8s/lint"
	"github.com/rayslice/rayslice/web"
)

// linter returns what the portal's pages look at people's YAML with.
func linter(catalogue rayslice.Catalogue) handlers.Linter {
	return handlers.Linter{
		Check: func(text []byte) rayslice.LintReport { return lint.Check(text, catalogue) },
		Fix: func(text []byte, key string) ([]byte, int) {
			if key == "" {
				return lint.FixAll(text, catalogue)
			}
			fixed, ok := lint.Fix(text, catalogue, key)
			if !ok {
				return fixed, 0
			}
			return fixed, 1
		},
	}
}

// lintFiles prints what is wrong with the files, a line each; with Fix it mends first what can be mended, and prints what is
// left. Standard input that is mended goes to out, its findings to standard error. An error of a file is an error of all.
func lintFiles(in io.Reader, out io.Writer, config Config, command lintCommand) error {
	catalogue, err := loadCatalogue(config.Catalogue)
	if err != nil {
		return err
	}
	wrong := 0
	for _, name := range command.Files {
		text, err := readBounded(in, name)
		if err != nil {
			return err
		}
		findings := out
		if command.Fix {
			if text, err = mend(out, name, text, catalogue); err != nil {
				return err
			}
			if name == "-" {
				findings = os.Stderr
			}
		}
		report := lint.Check(text, catalogue)
		wrong += report.Errors()
		if err := printFindings(findings, name, report.Findings, command.JSON); err != nil {
			return err
		}
	}
	if wrong > 0 {
		return errors.New(web.NewLocalizer("en").N("import_errors", wrong))
	}
	return nil
}

// readBounded reads a file, "-" being standard input, as far as it takes to see that it is too large.
func readBounded(in io.Reader, name string) ([]byte, error) {
	if name != "-" {
		file, err := os.Open(name)
		if err != nil {
			return nil, err
		}
		defer file.Close()
		in = file
	}
	return io.ReadAll(io.LimitReader(in, lint.MaxSize+1))
}

// mend writes the file anew where anything can be mended: whole or not at all.
func mend(out io.Writer, name string, text []byte, catalogue rayslice.Catalogue) ([]byte, error) {
	fixed, n := lint.FixAll(text, catalogue)
	switch {
	case len(text) > lint.MaxSize: // it was not read to its end
		return text, nil
	case name == "-":
		_, err := out.Write(fixed)
		return fixed, err
	case n == 0:
		return text, nil
	}
	return fixed, writeWhole(name, fixed)
}

func writeWhole(name string, text []byte) error {
	name, err := filepath.EvalSymlinks(name)
	if err != nil {
		return err
	}
	info, err := os.Stat(name)
	if err != nil {
		return err
	}
	temporary, err := os.CreateTemp(filepath.Dir(name), ".rayslice-lint-*")
	if err != nil {
		return err
	}
	defer os.Remove(temporary.Name())
	_, err = temporary.Write(text)
	if err = errors.Join(err, temporary.Chmod(info.Mode()), temporary.Close()); err != nil {
		return err
	}
	return os.Rename(temporary.Name(), name)
}

// printFindings prints file:line:column: severity: text (code) → what to do, as editors read it, or JSON.
func printFindings(out io.Writer, name string, findings []rayslice.Finding, asJSON bool) error {
	locale, encoder := web.NewLocalizer("en"), json.NewEncoder(out)
	encoder.SetEscapeHTML(false)
	for _, f := range findings {
		var err error
		if asJSON {
			err = encoder.Encode(struct {
				File string `json:"file"`
				rayslice.Finding
				Text   string `json:"text"`
				Remedy string `json:"remedy"`
			}{name, f, locale.Finding(f), locale.Remedy(f)})
		} else {
			_, err = fmt.Fprintf(out, "%s:%d:%d: %s: %s (%s) → %s\n", name, f.Line, f.Column, f.Severity, locale.Finding(f), f.Code, locale.Remedy(f))
		}
		if err != nil {
			return err
		}
	}
	return nil
}
