package cli

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"g8s.host/gpu-scheduler/pkg/phrase"
	"g8s.host/gpu-scheduler/pkg/workload"
)

// extensions are the files that a folder is searched for.
var extensions = []string{".yaml", ".yml", ".json"}

// addFilesFlag adds -f to a command.
func addFilesFlag(cmd *cobra.Command, files *[]string) {
	cmd.Flags().StringArrayVarP(files, "filename", "f", nil,
		"File, folder (searched for "+strings.Join(extensions, ", ")+") or - for standard input; may be repeated")
	_ = cmd.MarkFlagFilename("filename", "yaml", "yml", "json")
}

// moreFiles takes arguments as files where -f has named one, as in "-f a.yaml b.yaml", and refuses them elsewhere.
func moreFiles(cmd *cobra.Command, args []string) error {
	if len(args) > 0 && !cmd.Flags().Changed("filename") {
		return usagef("unexpected argument %q: give files with -f\nSee '%s --help'", args[0], cmd.CommandPath())
	}
	for _, file := range args {
		if err := cmd.Flags().Set("filename", file); err != nil {
			return err
		}
	}
	return nil
}

// submission is one document, and the file it comes from; no file where it was written by flags.
type submission struct {
	workload.Document
	// file is what it is called to people, and path where it is; empty for standard input and for flags.
	file, path string
	// text is the document as the file has it, whatever flags and presets have made of it.
	text string
}

// at is where the document begins, for the beginning of a message about it.
func (s submission) at() string {
	if s.file == "" {
		return ""
	}
	return fmt.Sprintf("%s:%d: ", s.file, s.Line)
}

// atField is at for a message about a field, which the file has if nothing else has set it.
func (s submission) atField(path string) string {
	line, column, ok := workload.PlaceOf(s.text, path)
	if s.file == "" || !ok {
		return s.at()
	}
	return fmt.Sprintf("%s:%d:%d: ", s.file, s.Line+line, column)
}

// usesPreset reports whether it is a job that names a preset.
func (s submission) usesPreset() bool { return s.Job != nil && s.Job.Resources.Preset != "" }

// readDocuments reads and checks all files before anything else happens. Problems go to stderr, all at once; an error
// in any document is a usage error, and no document is returned.
func (f *Factory) readDocuments(files []string) ([]submission, error) {
	if len(files) == 0 {
		return nil, usagef("no file: give one with -f FILE, or -f - for standard input")
	}
	paths, err := expand(files)
	if err != nil {
		return nil, err
	}
	var out []submission
	var problems int
	for _, path := range paths {
		data, err := readFile(f.IO.In, path)
		if err != nil {
			return nil, err
		}
		docs, diagnostics := workload.Parse(displayName(path), data)
		for _, diagnostic := range diagnostics {
			fmt.Fprintln(f.IO.ErrOut, diagnostic.In(f.language()))
			if diagnostic.Severity == workload.SeverityError {
				problems++
			}
		}
		for _, doc := range docs {
			out = append(out, submission{Document: doc, file: displayName(path), path: strings.TrimPrefix(path, stdin), text: doc.Source})
		}
	}
	if problems > 0 {
		return nil, usagef("%s in the YAML; nothing was done", countOfErrors(problems))
	}
	return out, checkRepeated(out)
}

// countOfErrors says how many errors there are.
func countOfErrors(n int) phrase.Text {
	if n == 1 {
		return phrase.Of("1 error")
	}
	return phrase.Of("%d errors", n)
}

// checkRepeated refuses two documents of one name in different files: within a file the parser has done so.
func checkRepeated(docs []submission) error {
	seen := map[string]string{}
	for _, doc := range docs {
		if doc.NamesItself() {
			continue
		}
		class := "job"
		if !doc.Kind.IsJob() {
			class = string(doc.Kind)
		}
		key := class + " " + doc.Namespace + "/" + doc.Name
		if file, ok := seen[key]; ok {
			return usagef("%s %q is both in %s and in %s; nothing was done", class, doc.Name, file, doc.file)
		}
		seen[key] = doc.file
	}
	return nil
}

const stdin = "-"

func displayName(path string) string {
	if path == stdin {
		return "<stdin>"
	}
	return path
}

// expand replaces folders by the files under them, in the order of their names.
func expand(files []string) ([]string, error) {
	var out []string
	for _, file := range files {
		if file == stdin {
			out = append(out, file)
			continue
		}
		found, err := walk(file)
		if err != nil {
			return nil, usagef("reading %s: %w", file, rootCause(err))
		}
		if len(found) == 0 {
			return nil, usagef("reading %s: the folder has no file that ends in %s", file, strings.Join(extensions, ", "))
		}
		out = append(out, found...)
	}
	return out, nil
}

func walk(root string) ([]string, error) {
	var found []string
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir():
			return nil
		case path == root || slices.Contains(extensions, strings.ToLower(filepath.Ext(path))):
			found = append(found, path)
		}
		return nil
	})
	return found, err
}

// largestRead bounds what is read into memory: more than the parser takes, so that it is the one to refuse.
const largestRead = 64 << 20

func readFile(in io.Reader, path string) ([]byte, error) {
	if path != stdin {
		file, err := os.Open(path)
		if err != nil {
			return nil, usagef("reading %s: %w", path, rootCause(err))
		}
		defer file.Close() //nolint:errcheck // it was only read
		in = file
	}
	data, err := io.ReadAll(io.LimitReader(in, largestRead))
	if err != nil {
		return nil, usagef("reading %s: %w", displayName(path), rootCause(err))
	}
	return data, nil
}

// rootCause drops the operation and path that an error of the file system repeats.
func rootCause(err error) error {
	var path *fs.PathError
	if errors.As(err, &path) {
		return path.Err
	}
	return err
}
