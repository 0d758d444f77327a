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

// extensions are the file extensions that a folder is searched for.
var extensions = []string{".yaml", ".yml", ".json"}

// addFilesFlag adds -f to a command.
func addFilesFlag(cmd *cobra.Command, files *[]string) {
	cmd.Flags().StringArrayVarP(files, "filename", "f", nil,
		"File, folder (searched for "+strings.Join(extensions, ", ")+") or - for standard input; may be repeated")
	_ = cmd.MarkFlagFilename("filename", "yaml", "yml", "json")
}

// acceptFileArgs accepts arguments as files if -f was given, as in "-f a.yaml b.yaml". Otherwise it refuses them.
func acceptFileArgs(cmd *cobra.Command, args []string) error {
	if len(args) > 0 && !cmd.Flags().Changed("filename") {
		return usageErrorf("unexpected argument %q: give files with -f\nSee '%s --help'", args[0], cmd.CommandPath())
	}
	for _, file := range args {
		if err := cmd.Flags().Set("filename", file); err != nil {
			return err
		}
	}
	return nil
}

// submission is one document with its file. A document written by flags has no file.
type submission struct {
	workload.Document
	// file is the display name, and path the location; both are empty for flags, and path is empty for standard input.
	file, path string
	// text is the document as written in the file, before flags and presets change it.
	text string
}

// positionPrefix returns the position of the document as a message prefix.
func (s submission) positionPrefix() string {
	if s.file == "" {
		return ""
	}
	return fmt.Sprintf("%s:%d: ", s.file, s.Line)
}

// fieldPrefix returns the position of a field as a message prefix, or that of the document if the file does not have the field.
func (s submission) fieldPrefix(path string) string {
	line, column, ok := workload.FieldPosition(s.text, path)
	if s.file == "" || !ok {
		return s.positionPrefix()
	}
	return fmt.Sprintf("%s:%d:%d: ", s.file, s.Line+line, column)
}

// usesPreset reports whether it is a job with a preset.
func (s submission) usesPreset() bool { return s.Job != nil && s.Job.Resources.Preset != "" }

// readDocuments reads and checks all files before anything else happens. It prints all problems to stderr. An error in any document is a usage error,
// and then no document is returned.
func (f *Factory) readDocuments(files []string) ([]submission, error) {
	if len(files) == 0 {
		return nil, usageErrorf("no file: give one with -f FILE, or -f - for standard input")
	}
	paths, err := expandFolders(files)
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
			fmt.Fprintln(f.IO.ErrOut, diagnostic.Localize(f.outputLanguage()))
			if diagnostic.Severity == workload.SeverityError {
				problems++
			}
		}
		for _, doc := range docs {
			out = append(out, submission{Document: doc, file: displayName(path), path: strings.TrimPrefix(path, stdin), text: doc.Source})
		}
	}
	if problems > 0 {
		return nil, usageErrorf("%s in the YAML; nothing was done", errorCountText(problems))
	}
	return out, checkRepeated(out)
}

// errorCountText returns the number of errors as text.
func errorCountText(n int) phrase.Text {
	if n == 1 {
		return phrase.Textf("1 error")
	}
	return phrase.Textf("%d errors", n)
}

// checkRepeated refuses two documents with the same name in different files. The parser checks this within a file.
func checkRepeated(docs []submission) error {
	seen := map[string]string{}
	for _, doc := range docs {
		if doc.GeneratesName() {
			continue
		}
		class := "job"
		if !doc.Kind.IsJob() {
			class = string(doc.Kind)
		}
		key := class + " " + doc.Namespace + "/" + doc.Name
		if file, ok := seen[key]; ok {
			return usageErrorf("%s %q is both in %s and in %s; nothing was done", class, doc.Name, file, doc.file)
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

// expandFolders replaces folders by the files in them, sorted by name.
func expandFolders(files []string) ([]string, error) {
	var out []string
	for _, file := range files {
		if file == stdin {
			out = append(out, file)
			continue
		}
		found, err := findFiles(file)
		if err != nil {
			return nil, usageErrorf("reading %s: %w", file, rootCause(err))
		}
		if len(found) == 0 {
			return nil, usageErrorf("reading %s: the folder has no file that ends in %s", file, strings.Join(extensions, ", "))
		}
		out = append(out, found...)
	}
	return out, nil
}

func findFiles(root string) ([]string, error) {
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

// maxReadBytes bounds what is read into memory. It is more than the parser accepts, so that the parser reports the error.
const maxReadBytes = 64 << 20

func readFile(in io.Reader, path string) ([]byte, error) {
	if path != stdin {
		file, err := os.Open(path)
		if err != nil {
			return nil, usageErrorf("reading %s: %w", path, rootCause(err))
		}
		defer file.Close() //nolint:errcheck // opened for reading only
		in = file
	}
	data, err := io.ReadAll(io.LimitReader(in, maxReadBytes))
	if err != nil {
		return nil, usageErrorf("reading %s: %w", displayName(path), rootCause(err))
	}
	return data, nil
}

// rootCause drops the operation and the path that file system errors repeat.
func rootCause(err error) error {
	var path *fs.PathError
	if errors.As(err, &path) {
		return path.Err
	}
	return err
}
