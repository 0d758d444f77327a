// Command man writes gpuctl's pages for man, one for each of its commands, and the scripts that make shells complete it.
//
//	go run ./hack/man -out DIR -date 2026-11-01 -version v1.2.3
package main

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"g8s.host/gpu-scheduler/cli"
)

func main() {
	out := flag.String("out", "", "The folder to write man1 and completions into")
	date := flag.String("date", "", "The date on the pages, such as 2026-11-01")
	version := flag.String("version", "dev", "The version on the pages")
	flag.Parse()
	if err := writePages(*out, *date, *version); err != nil {
		fmt.Fprintln(os.Stderr, "writing what belongs to gpuctl:", err)
		os.Exit(1)
	}
}

// shells maps each shell to the file name that it expects for the completion script that gpuctl completion prints.
var shells = map[string]string{"bash": "gpuctl.bash", "zsh": "_gpuctl", "fish": "gpuctl.fish", "powershell": "gpuctl.ps1"}

func writePages(out, date, version string) error {
	when, err := time.Parse(time.DateOnly, date)
	if err != nil {
		return fmt.Errorf("-date %q: want such as 2026-11-01", date)
	}
	if out == "" {
		return fmt.Errorf("-out is missing: give a folder")
	}
	pages, scripts := filepath.Join(out, "man1"), filepath.Join(out, "completions")
	for _, folder := range []string{pages, scripts} {
		if err := os.MkdirAll(folder, 0o755); err != nil {
			return err // the error names the folder
		}
	}
	command := cli.NewRootCommand(cli.IOStreams{})
	omitDates(command)
	header := &doc.GenManHeader{Section: "1", Date: &when, Source: "gpuctl " + version, Manual: "gpuctl"}
	if err := doc.GenManTree(command, header, pages); err != nil {
		return err
	}
	for shell, file := range shells {
		var script bytes.Buffer
		root := cli.NewRootCommand(cli.IOStreams{Out: &script})
		root.SetArgs([]string{"completion", shell})
		if err := root.Execute(); err != nil {
			return fmt.Errorf("completion for %s: %w", shell, err)
		}
		if err := os.WriteFile(filepath.Join(scripts, file), script.Bytes(), 0o644); err != nil {
			return err // the error names the file
		}
	}
	return nil
}

// omitDates omits the generation date: the pages have the date of the release.
func omitDates(command *cobra.Command) {
	command.DisableAutoGenTag = true
	for _, sub := range command.Commands() {
		omitDates(sub)
	}
}
