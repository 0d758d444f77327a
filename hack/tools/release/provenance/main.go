// Command provenance writes what a release was built from as an in-toto statement with SLSA provenance, and verifies such a statement against the
// files of a release. The statement is not signed: the publisher of the release signs it, or the checksums that cover it. See make release.
package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

const (
	statementFile = "provenance.intoto.json"
	partsFile     = "gpuctl.cdx.json"
	sumsFile      = "SHA256SUMS"
)

func main() {
	err := runCommand(os.Args[1:])
	if errors.Is(err, flag.ErrHelp) {
		os.Exit(2)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

// commits matches complete commit hashes: an abbreviated one cannot be verified.
var commits = regexp.MustCompile(`^[0-9a-f]{40}([0-9a-f]{24})?$`)

func runCommand(args []string) error {
	f := &facts{Parameters: map[string]string{}}
	flags := flag.NewFlagSet("provenance", flag.ContinueOnError)
	dir := flags.String("dir", "bin/release", "The folder of the release")
	check := flags.Bool("verify", false, "Hold the statement that is there against the files, and write none")
	flags.StringVar(&f.Source, "source", "", "Where the commit is from, a URL")
	flags.StringVar(&f.Commit, "commit", "", "The commit that was built")
	flags.StringVar(&f.BuildType, "build-type", "", "The page that says how to build the same, a URL")
	flags.StringVar(&f.Builder, "builder", "", "Whose machine built it, a URL")
	flags.StringVar(&f.LDFlags, "ldflags", "", "Flags of the linker")
	flags.Func("parameter", "NAME=VALUE that was given to make; may be repeated", func(text string) error { return addParameter(f.Parameters, text) })
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *check {
		return verifyRelease(*dir)
	}
	return writeStatement(*dir, f)
}

var parameters = regexp.MustCompile(`^(\w+)=(.*)$`)

func addParameter(to map[string]string, text string) error {
	parts := parameters.FindStringSubmatch(text)
	if parts == nil {
		return errors.New("want NAME=VALUE")
	}
	to[parts[1]] = parts[2]
	return nil
}

// writeStatement writes the statement for the existing files.
func writeStatement(dir string, f *facts) error {
	if !commits.MatchString(f.Commit) {
		return fmt.Errorf("-commit %q: want all of its digits, as git rev-parse HEAD prints them", f.Commit)
	}
	for name, value := range map[string]string{"source": f.Source, "build-type": f.BuildType, "builder": f.Builder} {
		if value == "" {
			return fmt.Errorf("-%s is not given", name)
		}
	}
	var err error
	if f.Sums, err = fileSums(dir); err != nil {
		return err
	}
	if f.Parts, err = readParts(filepath.Join(dir, partsFile)); err != nil {
		return err
	}
	s, err := newStatement(f)
	if err != nil {
		return err
	}
	text, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return fmt.Errorf("writing the statement: %w", err)
	}
	return os.WriteFile(filepath.Join(dir, statementFile), append(text, '\n'), 0o644)
}

func verifyRelease(dir string) error {
	text, err := os.ReadFile(filepath.Join(dir, statementFile))
	if err != nil {
		return err // the error names the file
	}
	var s statement
	if err := json.Unmarshal(text, &s); err != nil {
		return fmt.Errorf("reading %s: %w", statementFile, err)
	}
	files, err := fileSums(dir)
	if err != nil {
		return err
	}
	if err := s.verifyFiles(files); err != nil {
		return fmt.Errorf("holding %s against the release: %w", statementFile, err)
	}
	return nil
}

// fileSums returns the checksums of all files of a release, except for the checksum file and the statement itself.
func fileSums(dir string) (map[string]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err // the error names the folder
	}
	found := map[string]string{}
	for _, entry := range entries {
		if entry.IsDir() || entry.Name() == statementFile || entry.Name() == sumsFile {
			continue
		}
		data, err := os.ReadFile(filepath.Join(dir, entry.Name()))
		if err != nil {
			return nil, err // the error names the file
		}
		sum := sha256.Sum256(data)
		found[entry.Name()] = hex.EncodeToString(sum[:])
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("%s has no files of a release", dir)
	}
	return found, nil
}

// readParts returns the components that the release lists for its programs.
func readParts(file string) ([]cdx.Component, error) {
	in, err := os.Open(file)
	if err != nil {
		return nil, err // the error names the file
	}
	defer func() { _ = in.Close() }()
	var document cdx.BOM
	if err := cdx.NewBOMDecoder(in, cdx.BOMFileFormatJSON).Decode(&document); err != nil {
		return nil, fmt.Errorf("reading %s: %w", file, err)
	}
	if document.Components == nil || len(*document.Components) == 0 {
		return nil, fmt.Errorf("%s has no parts, not even the toolchain", file)
	}
	return *document.Components, nil
}
