package cli

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"g8s.host/gpu-scheduler/pkg/inventory"
	"g8s.host/gpu-scheduler/pkg/jobplan"
	"g8s.host/gpu-scheduler/pkg/phrase"
	"g8s.host/gpu-scheduler/pkg/workdir"
	"g8s.host/gpu-scheduler/pkg/workload"
)

// addWorkdirFlag adds --workdir to a command that reads files.
func addWorkdirFlag(flags *pflag.FlagSet, folder *string) {
	flags.StringVar(folder, "workdir", "", workdirUsage)
}

const workdirUsage = "A folder of this machine to send with the job, such as . for this one; the job starts in a copy of it"

// sentFolder is a packed folder.
type sentFolder struct {
	upload  *workload.Upload
	listing *workdir.Listing
}

// sends reports whether it is a job that is submitted with a folder.
func (s submission) sends() bool { return s.Job != nil && s.Job.Workdir != "" }

// pack packs the folders that are submitted with jobs, each once, and prints what they contain. Nothing is sent yet.
func (m *manifests) pack(ctx context.Context, docs []submission) ([]submission, error) {
	if !slices.ContainsFunc(docs, submission.sends) {
		return docs, nil
	}
	limit, err := m.workdirLimit(ctx)
	if err != nil {
		return nil, err
	}
	packed := map[string]sentFolder{}
	out := slices.Clone(docs)
	for i, doc := range out {
		if !doc.sends() {
			continue
		}
		folder, err := m.folderOf(doc)
		if err != nil {
			return nil, err
		}
		sent, again := packed[folder]
		if !again {
			stop := startProgress(m.factory.IO, phrase.Of("Packing %s", folder))
			sent, err = packFolder(folder, limit)
			stop()
			if err != nil {
				return nil, usagef("%sjob.workdir %s: %w; nothing was done", doc.at(), folder, err)
			}
			packed[folder] = sent
			m.tellFolder(doc, folder, sent)
		}
		out[i].Upload = sent.upload
	}
	return out, nil
}

// workdirLimit returns the maximum size of a folder: what administrators allow, or, without a cluster, the most that they can allow.
func (m *manifests) workdirLimit(ctx context.Context) (int64, error) {
	if m.offline {
		return inventory.MaxWorkdirLimit, nil
	}
	reader, err := m.factory.reader()
	if err != nil {
		return 0, err
	}
	limit, err := reader.WorkdirLimit(ctx)
	if err == nil && limit == 0 {
		err = usagef("job.workdir: the administrators let no folder be sent: put the code into the image, or mount it with storage; nothing was done")
	}
	return limit, err
}

// folderOf returns the folder of a job. On the command line it may be any folder. A file may name only a folder beside or below itself, so that a
// downloaded file cannot send other parts of the machine.
func (m *manifests) folderOf(doc submission) (string, error) {
	if m.workdir != "" {
		return filepath.Abs(m.workdir)
	}
	folder := filepath.FromSlash(doc.Job.Workdir)
	if !filepath.IsLocal(folder) {
		return "", usagef("%sjob.workdir: %s is not within the folder of the file: name it on the command line, with --workdir; nothing was done",
			doc.at(), doc.Job.Workdir)
	}
	return filepath.Abs(filepath.Join(filepath.Dir(doc.path), folder))
}

// packFolder packs a folder. It reads only what is in it, and does not follow links out of it.
func packFolder(folder string, limit int64) (sentFolder, error) {
	root, err := os.OpenRoot(folder)
	if err != nil {
		return sentFolder{}, rootCause(err)
	}
	defer root.Close() //nolint:errcheck // opened for reading only
	around, err := aroundOf(folder)
	if err != nil {
		return sentFolder{}, err
	}
	around.Files = root.FS()
	listing, err := workdir.List(around, limit)
	if err != nil {
		return sentFolder{}, err
	}
	archive, err := workdir.Pack(around.Files, listing, limit)
	if err != nil {
		return sentFolder{}, err
	}
	return sentFolder{upload: workload.NewUpload(archive.Digest, archive.Data), listing: listing}, nil
}

// aroundOf reads the ignore rules of enclosing folders, if they belong to the same repository.
func aroundOf(folder string) (workdir.Folder, error) {
	real, err := filepath.EvalSymlinks(folder)
	if err != nil {
		return workdir.Folder{}, rootCause(err)
	}
	var out workdir.Folder
	for at := real; ; {
		if _, err := os.Lstat(filepath.Join(at, ".git")); err == nil {
			return out, nil
		}
		above := filepath.Dir(at)
		if above == at { // no repository
			return workdir.Folder{}, nil
		}
		text, err := os.ReadFile(filepath.Join(above, ".gitignore"))
		if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrPermission) {
			return workdir.Folder{}, rootCause(err)
		}
		out.Above = slices.Insert(out.Above, 0, string(bytes.Clone(text)))
		out.Steps = slices.Insert(out.Steps, 0, filepath.Base(at))
		at = above
	}
}

// tellFolder prints what is sent of a folder, and what is not.
func (m *manifests) tellFolder(doc submission, folder string, sent sentFolder) {
	l := sent.listing
	say := func(text phrase.Text) { m.factory.IO.tell("%s%s", doc.at(), text) }
	verb := phrase.Of("sending")
	if m.unsent {
		verb = phrase.Of("would send")
	}
	var left phrase.Text
	if l.Ignored > 0 {
		left = phrase.Of("; .gitignore or .dockerignore leaves out %d", l.Ignored)
	}
	packed := workdir.Bytes(int64(len(sent.upload.Data)))
	say(phrase.Of("%s %s of %s, %s (%s compressed)%s", verb, plural(l.Files, "file"), folder, workdir.Bytes(l.Size), packed, left))
	if m.offline && len(sent.upload.Data) > inventory.DefaultWorkdirLimit {
		say(phrase.Of("note: a cluster takes it only if its administrators allow more than %s", workdir.Bytes(inventory.DefaultWorkdirLimit)))
	}
	if len(l.Secret) > 0 {
		say(phrase.Of("note: not sent, as it may hold passwords or keys: %s; a line !%s in .gitignore or .dockerignore sends it all the same",
			firstOf(l.Secret), l.Secret[0]))
	}
	if len(l.Outside) > 0 {
		say(phrase.Of("note: sent as links that lead out of the folder, without what they lead to: %s", firstOf(l.Outside)))
	}
	if len(l.Special) > 0 {
		say(phrase.Of("note: not sent, as neither file, folder nor link: %s", firstOf(l.Special)))
	}
}

// firstOf lists the first of several names.
func firstOf(all []string) phrase.Text {
	const most = 3
	if len(all) <= most {
		return phrase.Quote(strings.Join(all, ", "))
	}
	return phrase.Of("%s and %d more", strings.Join(all[:most], ", "), len(all)-most)
}

// sendFolder sets the folder of the command line in the YAML of a job.
func (m *manifests) sendFolder(source string) (string, error) {
	if m.workdir == "" {
		return source, nil
	}
	return jobplan.SetField(source, "job.workdir", filepath.ToSlash(m.workdir))
}
