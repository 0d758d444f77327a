// Package workdir makes an archive of a local folder, to be sent with a job: of what .gitignore and .dockerignore do not
// leave out, and within bounds. The same content is the same archive, whoever makes it and when.
//
// What it reads is a file system that cannot be left; what becomes of the archive is for others to say.
package workdir

import (
	"io/fs"
	"path"

	"g8s.host/gpu-scheduler/pkg/phrase"
)

const (
	// ratio is how much larger than its archive a folder may be: the node unpacks all of it, and what is compressed better than
	// code is data.
	ratio = 16
	// mostFiles is the most files and folders that are sent. A folder of more holds what was installed or computed.
	mostFiles = 20_000
	// mostIgnore is the size of a .gitignore beyond which it is not read.
	mostIgnore = 1 << 20
	// largestNamed is how many of the largest files, or of the fullest folders, an error names.
	largestNamed = 3
)

// Folder is a folder to send.
type Folder struct {
	// Files has the folder as its root. It must tell what links are.
	Files fs.FS
	// Above are the texts of the .gitignore of the folders around it within one repository, the outermost first; it is
	// itself in the folder Steps[0] of the first, in that the folder Steps[1] of the next, and so on.
	Above []string
	Steps []string
}

// Entry is a file, a folder or a link that is sent.
type Entry struct {
	// Path is that within the folder.
	Path string
	// Mode has the type and the permissions.
	Mode fs.FileMode
	// Size is that of a file.
	Size int64
	// Target is what a link leads to.
	Target string
}

// Listing is what of a folder is sent.
type Listing struct {
	// Entries are sorted by path, each folder before what is in it.
	Entries []Entry
	// Files is how many of these are files or links, and Size what they hold together.
	Files int
	Size  int64
	// Ignored is how many files and folders are left out as .gitignore or .dockerignore say; what is in such a folder is not
	// counted.
	Ignored int
	// Secret are what is left out as it may hold passwords or keys, and no line of those files names it with a !.
	Secret []string
	// Special are what is neither file, folder nor link, such as sockets: they are left out.
	Special []string
	// Outside are links that lead out of the folder: they are sent, and what they lead to is not.
	Outside []string
}

// outside says whether a link at a path leads out of the root.
func outside(at, target string) bool {
	return path.IsAbs(target) || !fs.ValidPath(path.Join(path.Dir(at), target))
}

// ReadError says that something cannot be read.
type ReadError struct {
	Path  string
	Cause error
}

func (e *ReadError) Error() string { return e.Says().String() }
func (e *ReadError) Unwrap() error { return e.Cause }

// Says implements [phrase.Sayer].
func (e *ReadError) Says() phrase.Text {
	return phrase.Of("%s cannot be read: %w\nMake it readable, or name it in .gitignore to leave it out", e.Path, e.Cause)
}

// ChangedError says that a file changed each time it was read.
type ChangedError struct{ Path string }

func (e *ChangedError) Error() string { return e.Says().String() }

// Says implements [phrase.Sayer].
func (e *ChangedError) Says() phrase.Text {
	return phrase.Of("%s changes while it is read: wait until it is written, or name it in .gitignore to leave it out", e.Path)
}
