// Package workdir packs a local folder that is submitted with a job: the files that .gitignore and .dockerignore do not exclude, within bounds. The
// same content always gives the same archive.
//
// It reads from a file system that cannot be left; others decide what to do with the archive.
package workdir

import (
	"io/fs"
	"path"

	"g8s.host/gpu-scheduler/pkg/phrase"
)

const (
	// maxCompressionRatio is the maximum ratio of a folder's size to its archive's size: the node unpacks all of it, and anything that compresses
	// better than code is data.
	maxCompressionRatio = 16
	// maxFiles is the maximum number of files and folders. A larger folder contains installed or computed files.
	maxFiles = 20_000
	// maxIgnoreSize is the maximum size of a .gitignore.
	maxIgnoreSize = 1 << 20
	// largestNamed is how many of the largest files, or of the fullest folders, an error names.
	largestNamed = 3
)

// Folder is a folder to send.
type Folder struct {
	// Files has the folder as its root. It must support links.
	Files fs.FS
	// Above are the texts of the .gitignore files in the enclosing folders of the same repository, the outermost first. The folder is inside Steps[0]
	// of the first one, then Steps[1] of the next, and so on.
	Above []string
	Steps []string
}

// Entry is a file, a folder or a link to be sent.
type Entry struct {
	// Path is the path within the folder.
	Path string
	// Mode contains the type and the permissions.
	Mode fs.FileMode
	// Size is that of a file.
	Size int64
	// Target is the target of a link.
	Target string
}

// Listing is the part of a folder that is sent.
type Listing struct {
	// Entries are sorted by path, each folder before its content.
	Entries []Entry
	// Files is the number of files and links, and Size their total size.
	Files int
	Size  int64
	// Ignored is the number of files and folders that .gitignore or .dockerignore exclude; the content of such a folder is not counted.
	Ignored int
	// Secret are files excluded because they may contain passwords or keys, unless a line of those files includes them with a !.
	Secret []string
	// Special are neither files, folders nor links, such as sockets: they are excluded.
	Special []string
	// Outside are links that lead out of the folder: they are sent, but not their targets.
	Outside []string
}

// leadsOutside reports whether a link at a path leads out of the root.
func leadsOutside(at, target string) bool {
	return path.IsAbs(target) || !fs.ValidPath(path.Join(path.Dir(at), target))
}

// ReadError says that a file or folder cannot be read.
type ReadError struct {
	Path  string
	Cause error
}

func (e *ReadError) Error() string { return e.Message().String() }
func (e *ReadError) Unwrap() error { return e.Cause }

// Message implements [phrase.LocalizedError].
func (e *ReadError) Message() phrase.Text {
	return phrase.Textf("%s cannot be read: %w\nMake it readable, or name it in .gitignore to leave it out", e.Path, e.Cause)
}

// ChangedError says that a file changed each time it was read.
type ChangedError struct{ Path string }

func (e *ChangedError) Error() string { return e.Message().String() }

// Message implements [phrase.LocalizedError].
func (e *ChangedError) Message() phrase.Text {
	return phrase.Textf("%s changes while it is read: wait until it is written, or name it in .gitignore to leave it out", e.Path)
}
