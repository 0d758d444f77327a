package workdir

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"slices"
	"strings"
	"time"
	"unicode"

	"g8s.host/gpu-scheduler/pkg/phrase"
)

// maxPlainName is the maximum length of names in every tar format.
const maxPlainName = 100

// readAttempts is how often a file that changes meanwhile is read.
const readAttempts = 3

// archiveTime is the modification time of all files in the archive: the real times say nothing about the content.
var archiveTime = time.Date(2000, time.January, 1, 0, 0, 0, 0, time.UTC)

// Archive is a gzip-compressed tar archive.
type Archive struct {
	// Digest is the hexadecimal SHA-256 of the uncompressed archive.
	Digest string
	Data   []byte
}

// errFull ends an archive that has become too large.
var errFull = phrase.Errorf("the archive is too large")

// boundedBuffer is a buffer with a maximum size.
type boundedBuffer struct {
	bytes.Buffer
	left int64
}

func (b *boundedBuffer) Write(data []byte) (int, error) {
	if b.left -= int64(len(data)); b.left < 0 {
		return 0, errFull
	}
	return b.Buffer.Write(data)
}

// Pack packs the listed files. The archive has at most limit bytes.
func Pack(files fs.FS, listing *Listing, limit int64) (*Archive, error) {
	if listing.Size > maxCompressionRatio*limit {
		return nil, listing.sizeError(limit, false)
	}
	out, sum := &boundedBuffer{left: limit}, sha256.New()
	compressed, err := gzip.NewWriterLevel(out, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	archive := tar.NewWriter(io.MultiWriter(sum, compressed))
	for _, entry := range linksLast(listing.Entries) {
		if err = packEntry(archive, files, entry, maxCompressionRatio*limit); err != nil {
			break
		}
	}
	if err == nil {
		err = errors.Join(archive.Close(), compressed.Close())
	}
	switch {
	case errors.Is(err, errFull):
		return nil, listing.sizeError(limit, true)
	case err != nil:
		return nil, err
	}
	return &Archive{Digest: hex.EncodeToString(sum.Sum(nil)), Data: out.Bytes()}, nil
}

// linksLast moves links to the end, so that unpacking never writes through one.
func linksLast(entries []Entry) []Entry {
	isLink := func(entry Entry) bool { return entry.Mode&fs.ModeSymlink != 0 }
	links := slices.DeleteFunc(slices.Clone(entries), func(entry Entry) bool { return !isLink(entry) })
	return append(slices.DeleteFunc(slices.Clone(entries), isLink), links...)
}

// packEntry adds an entry. Of its permissions only the executable bit is kept.
func packEntry(archive *tar.Writer, files fs.FS, entry Entry, most int64) error {
	header := &tar.Header{Name: entry.Path, ModTime: archiveTime, Mode: 0o644, Typeflag: tar.TypeReg}
	var content []byte
	switch {
	case entry.Mode.IsDir():
		header.Typeflag, header.Name, header.Mode = tar.TypeDir, entry.Path+"/", 0o755
	case entry.Mode&fs.ModeSymlink != 0:
		header.Typeflag, header.Linkname, header.Mode = tar.TypeSymlink, entry.Target, 0o777
	default:
		var err error
		if content, err = readStable(files, entry.Path, most); err != nil {
			return err
		}
		header.Size = int64(len(content))
		if entry.Mode.Perm()&0o111 != 0 {
			header.Mode = 0o755
		}
	}
	header.Format = formatOf(header)
	if err := archive.WriteHeader(header); err != nil {
		if errors.Is(err, errFull) {
			return err
		}
		return readError(entry.Path, err)
	}
	_, err := archive.Write(content)
	return err
}

// formatOf returns the GNU format for a name that the oldest format cannot store. Go would choose pax, whose names BusyBox does not read: it would
// unpack the file under a truncated name.
func formatOf(header *tar.Header) tar.Format {
	for _, name := range []string{header.Name, header.Linkname} {
		if len(name) > maxPlainName || strings.ContainsFunc(name, func(r rune) bool { return r > unicode.MaxASCII }) {
			return tar.FormatGNU
		}
	}
	return tar.FormatUnknown // the oldest format that suffices
}

// readStable reads a consistent version of a file.
func readStable(files fs.FS, at string, most int64) ([]byte, error) {
	for range readAttempts {
		content, same, err := readOnce(files, at, most)
		if err != nil {
			return nil, readError(at, err)
		}
		if same {
			return content, nil
		}
	}
	return nil, &ChangedError{Path: at}
}

func readOnce(files fs.FS, at string, most int64) (content []byte, same bool, err error) {
	file, err := files.Open(at)
	if err != nil {
		return nil, false, err
	}
	defer file.Close() //nolint:errcheck // opened for reading only
	before, err := file.Stat()
	if err != nil {
		return nil, false, err
	}
	if content, err = io.ReadAll(io.LimitReader(file, most)); err != nil {
		return nil, false, err
	}
	after, err := file.Stat()
	if err != nil {
		return nil, false, err
	}
	same = before.Size() == after.Size() && before.ModTime().Equal(after.ModTime()) && after.Size() == int64(len(content))
	return content, same, nil
}
