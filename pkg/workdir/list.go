package workdir

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/moby/patternmatcher"
	"github.com/moby/patternmatcher/ignorefile"

	"g8s.host/gpu-scheduler/pkg/phrase"
)

const (
	gitFolder    = ".git"
	gitIgnore    = ".gitignore"
	dockerIgnore = ".dockerignore"
)

// List determines which files of a folder are sent; limit is the maximum size of the archive in bytes. It reads only folders and ignore files.
func List(folder Folder, limit int64) (*Listing, error) {
	w := &walker{files: folder.Files, limit: limit, prefix: path.Join(folder.Steps...), added: map[string]bool{}}
	links, ok := folder.Files.(fs.ReadLinkFS)
	if !ok {
		return nil, fmt.Errorf("listing a folder: a %T does not tell what links are", folder.Files)
	}
	w.links = links
	for i, text := range folder.Above {
		w.rules = append(w.rules, parseIgnore(path.Join(folder.Steps[:i]...), []byte(text))...)
	}
	if err := w.readDockerIgnore(); err != nil {
		return nil, err
	}
	if err := w.walkFolder("."); err != nil {
		return nil, err
	}
	if w.out.Files == 0 && len(w.out.Secret) > 0 {
		return nil, phrase.Errorf("the folder has no file that is sent but what may hold passwords or keys, such as %s", w.out.Secret[0])
	}
	if w.out.Files == 0 {
		return nil, phrase.Errorf("the folder has no file that is sent; %d are left out by .gitignore or .dockerignore", w.out.Ignored)
	}
	return &w.out, nil
}

// walker walks through a folder.
type walker struct {
	files fs.FS
	links fs.ReadLinkFS
	limit int64
	// prefix is the path of the folder within its repository, to which the folders of rules are relative.
	prefix string
	// rules are those of the enclosing folders, the nearest last.
	rules []rule
	// docker is nil without a .dockerignore; dockerKeeps are its lines that begin with a !.
	docker      *patternmatcher.PatternMatcher
	dockerKeeps []rule
	// added are the folders already in out.
	added map[string]bool
	out   Listing
}

func (w *walker) readDockerIgnore() error {
	text, err := w.readIgnoreFile(dockerIgnore)
	if text == nil || err != nil {
		return err
	}
	patterns, err := ignorefile.ReadAll(strings.NewReader(string(text)))
	if err == nil {
		w.docker, err = patternmatcher.New(patterns)
		w.dockerKeeps = dockerKeeps(patterns)
	}
	if err != nil {
		return phrase.Errorf("%s: %w", dockerIgnore, err)
	}
	return nil
}

// readIgnoreFile reads an ignore file; nil if there is no regular file of the name.
func (w *walker) readIgnoreFile(name string) ([]byte, error) {
	info, err := w.links.Lstat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist) || err == nil && !info.Mode().IsRegular():
		return nil, nil
	case err == nil && info.Size() > maxIgnoreSize:
		return nil, phrase.Errorf("%s has %s: it would take too long to go by", name, FormatBytes(info.Size()))
	}
	text, err := fs.ReadFile(w.files, name)
	if err != nil {
		return nil, readError(name, err)
	}
	return text, nil
}

// walkFolder walks through a folder and everything below it.
func (w *walker) walkFolder(dir string) error {
	text, err := w.readIgnoreFile(path.Join(dir, gitIgnore))
	if err != nil {
		return err
	}
	before := w.rules
	w.rules = slices.Concat(before, parseIgnore(path.Join(w.prefix, dir), text))
	defer func() { w.rules = before }()
	entries, err := fs.ReadDir(w.files, dir)
	if err != nil {
		return readError(dir, err)
	}
	for _, entry := range entries {
		if entry.Name() == gitFolder {
			continue
		}
		if err := w.visitEntry(path.Join(dir, entry.Name()), entry); err != nil {
			return err
		}
	}
	return nil
}

// visitEntry handles one file or folder.
func (w *walker) visitEntry(at string, entry fs.DirEntry) error {
	left := false
	if w.docker != nil {
		var err error
		if left, err = w.docker.MatchesOrParentMatches(at); err != nil {
			return phrase.Errorf("%s: %w", dockerIgnore, err)
		}
	}
	switch {
	case isIgnored(w.rules, path.Join(w.prefix, at), entry.IsDir()), left && (!entry.IsDir() || !w.docker.Exclusions()):
		w.out.Ignored++
		return nil
	case w.isSecret(path.Join(w.prefix, at), at, entry.IsDir()):
		w.out.Secret = append(w.out.Secret, at)
		return nil
	case !utf8.ValidString(at):
		return readError(at, phrase.Errorf("its name is no UTF-8 text"))
	case left: // but its content may be included
		return w.walkFolder(at)
	case entry.IsDir():
		if err := w.addEntry(Entry{Path: at, Mode: fs.ModeDir}); err != nil {
			return err
		}
		return w.walkFolder(at)
	}
	return w.addFile(at, entry)
}

func (w *walker) addFile(at string, entry fs.DirEntry) error {
	out := Entry{Path: at, Mode: entry.Type()}
	switch {
	case out.Mode.IsRegular():
		info, err := entry.Info()
		if err != nil {
			return readError(at, err)
		}
		out.Mode, out.Size = info.Mode(), info.Size()
	case out.Mode&fs.ModeSymlink != 0:
		target, err := w.links.ReadLink(at)
		if err != nil {
			return readError(at, err)
		}
		out.Target = target
		if leadsOutside(at, target) {
			w.out.Outside = append(w.out.Outside, at)
		}
	default:
		w.out.Special = append(w.out.Special, at)
		return nil
	}
	w.out.Files++
	w.out.Size += out.Size
	return w.addEntry(out)
}

// addEntry adds an entry, after its parent folders that would be excluded otherwise.
func (w *walker) addEntry(entry Entry) error {
	if around := path.Dir(entry.Path); around != "." && !w.added[around] {
		if err := w.addEntry(Entry{Path: around, Mode: fs.ModeDir}); err != nil {
			return err
		}
	}
	w.added[entry.Path] = entry.Mode.IsDir()
	w.out.Entries = append(w.out.Entries, entry)
	if len(w.out.Entries) > maxFiles {
		return w.out.countError()
	}
	return nil
}

// readError removes the operation and the path that file system errors repeat.
func readError(at string, err error) error {
	var of *fs.PathError
	if errors.As(err, &of) {
		err = of.Err
	}
	return &ReadError{Path: at, Cause: err}
}
