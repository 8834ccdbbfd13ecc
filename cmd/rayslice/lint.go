package main

import (
	"bytes"
	"context"
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
		Fix: func(ctx context.Context, text []byte, key string) ([]byte, int) {
			if key == "" {
				return lint.FixAll(ctx, text, catalogue)
			}
			fixed, ok := lint.Fix(ctx, text, catalogue, key)
			if !ok {
				return fixed, 0
			}
			return fixed, 1
		},
	}
}

// exitNotLinted says that a file could not be read or mended, that the command was interrupted, or that it was called wrongly.
const exitNotLinted = 2

// A lintFailure is what kept a file from being looked at, whatever was found in the others.
type lintFailure struct{ cause error }

// Error says what it was.
func (f lintFailure) Error() string { return f.cause.Error() }

// Unwrap returns what it was.
func (f lintFailure) Unwrap() error { return f.cause }

// lintFiles prints what is wrong with the files, a line each; with Fix it mends first what can be mended, and prints what is
// left. Standard input that is mended goes to out, its findings to errs, and so does what is wrong with a file itself, which
// keeps none of the others from being looked at. An error of a file is an error of all, a lintFailure when one could not be looked at.
func lintFiles(ctx context.Context, in io.Reader, out, errs io.Writer, config Config, command lintCommand) error {
	catalogue, err := loadCatalogue(config.Catalogue)
	if err != nil {
		return lintFailure{err}
	}
	wrong, failed := 0, 0
	for _, name := range command.Files {
		n, err := lintFile{in, out, errs, name, catalogue, command}.run(ctx)
		wrong += n
		switch {
		case ctx.Err() != nil:
			return lintFailure{fmt.Errorf("interrupted at %s", name)}
		case err != nil:
			failed++
			if _, err := fmt.Fprintf(errs, "rayslice: %v\n", err); err != nil {
				return lintFailure{err}
			}
		}
	}
	found := web.NewLocalizer("en").N("import_errors", wrong)
	switch {
	case failed > 0 && wrong > 0:
		return lintFailure{fmt.Errorf("%d of %d files could not be looked at; %s in the others", failed, len(command.Files), found)}
	case failed > 0:
		return lintFailure{fmt.Errorf("%d of %d files could not be looked at", failed, len(command.Files))}
	case wrong > 0:
		return errors.New(found)
	}
	return nil
}

// lintFile looks at one file.
type lintFile struct {
	in        io.Reader
	out, errs io.Writer
	name      string // "-" = in
	catalogue rayslice.Catalogue
	command   lintCommand
}

// run returns how many errors the file has, once they are printed.
func (l lintFile) run(ctx context.Context) (wrong int, err error) {
	text, err := await(ctx, func() ([]byte, error) { return readBounded(l.in, l.name) })
	if err != nil {
		return 0, err
	}
	findings := l.out
	if l.command.Fix {
		if text, err = l.mend(ctx, text); err != nil {
			return 0, err
		}
		if l.name == "-" {
			findings = l.errs
		}
	}
	report, err := await(ctx, func() (rayslice.LintReport, error) { return lint.Check(text, l.catalogue), nil })
	if err != nil {
		return 0, err
	}
	return report.Errors(), l.print(findings, report.Findings)
}

// await does what may take long, such as reading from a pipe, and leaves it alone when ctx ends.
func await[T any](ctx context.Context, work func() (T, error)) (T, error) {
	type result struct {
		value T
		err   error
	}
	done := make(chan result, 1)
	go func() {
		value, err := work()
		done <- result{value, err}
	}()
	select {
	case r := <-done:
		return r.value, r.err
	case <-ctx.Done():
		var none T
		return none, ctx.Err()
	}
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
func (l lintFile) mend(ctx context.Context, text []byte) ([]byte, error) {
	if len(text) > lint.MaxSize { // it was not read to its end
		return text, nil
	}
	fixed, err := await(ctx, func() ([]byte, error) {
		fixed, _ := lint.FixAll(ctx, text, l.catalogue)
		return fixed, ctx.Err()
	})
	switch {
	case err != nil:
		return nil, err
	case l.name == "-":
		_, err := l.out.Write(fixed)
		return fixed, err
	case bytes.Equal(fixed, text):
		return text, nil
	}
	return fixed, writeWhole(l.name, fixed)
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

// print prints file:line:column: severity: text (code) → what to do, as editors read it, or JSON. What has a fix and is still
// there after fixing could not be mended.
func (l lintFile) print(out io.Writer, findings []rayslice.Finding) error {
	locale, encoder := web.NewLocalizer("en"), json.NewEncoder(out)
	encoder.SetEscapeHTML(false)
	for _, f := range findings {
		var err error
		missed, note := l.command.Fix && len(f.Fix) > 0, ""
		if missed {
			note = " [" + locale.NotMended() + "]"
		}
		if l.command.JSON {
			err = encoder.Encode(struct {
				File string `json:"file"`
				rayslice.Finding
				Text      string `json:"text"`
				Remedy    string `json:"remedy"`
				NotMended bool   `json:"not_mended,omitempty"`
			}{l.name, f, locale.Finding(f), locale.Remedy(f), missed})
		} else {
			_, err = fmt.Fprintf(out, "%s:%d:%d: %s: %s (%s) → %s%s\n", l.name, f.Line, f.Column, f.Severity, locale.Finding(f), f.Code, locale.Remedy(f), note)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
