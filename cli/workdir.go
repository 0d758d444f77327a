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

// packedFolder is a packed folder.
type packedFolder struct {
	upload  *workload.Upload
	listing *workdir.Listing
}

// hasWorkdir reports whether it is a job that is submitted with a folder.
func (s submission) hasWorkdir() bool { return s.Job != nil && s.Job.Workdir != "" }

// packFolders packs the folders that are submitted with jobs, each once, and prints what they contain. Nothing is sent yet.
func (m *manifests) packFolders(ctx context.Context, docs []submission) ([]submission, error) {
	if !slices.ContainsFunc(docs, submission.hasWorkdir) {
		return docs, nil
	}
	limit, err := m.workdirLimit(ctx)
	if err != nil {
		return nil, err
	}
	packed := map[string]packedFolder{}
	out := slices.Clone(docs)
	for i, doc := range out {
		if !doc.hasWorkdir() {
			continue
		}
		folder, err := m.jobFolder(doc)
		if err != nil {
			return nil, err
		}
		sent, again := packed[folder]
		if !again {
			stop := startProgress(m.factory.IO, phrase.Textf("Packing %s", folder))
			sent, err = packFolder(folder, limit)
			stop()
			if err != nil {
				return nil, usageErrorf("%sjob.workdir %s: %w; nothing was done", doc.positionPrefix(), folder, err)
			}
			packed[folder] = sent
			m.printFolderNotes(doc, folder, sent)
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
	reader, err := m.factory.newReader()
	if err != nil {
		return 0, err
	}
	limit, err := reader.WorkdirLimit(ctx)
	if err == nil && limit == 0 {
		err = usageErrorf("job.workdir: the administrators let no folder be sent: put the code into the image, or mount it with storage; nothing was done")
	}
	return limit, err
}

// jobFolder returns the folder of a job. On the command line it may be any folder. A file may name only a folder beside or below itself, so that a
// downloaded file cannot send other parts of the machine.
func (m *manifests) jobFolder(doc submission) (string, error) {
	if m.workdir != "" {
		return filepath.Abs(m.workdir)
	}
	folder := filepath.FromSlash(doc.Job.Workdir)
	if !filepath.IsLocal(folder) {
		return "", usageErrorf("%sjob.workdir: %s is not within the folder of the file: name it on the command line, with --workdir; nothing was done",
			doc.positionPrefix(), doc.Job.Workdir)
	}
	return filepath.Abs(filepath.Join(filepath.Dir(doc.path), folder))
}

// packFolder packs a folder. It reads only what is in it, and does not follow links out of it.
func packFolder(folder string, limit int64) (packedFolder, error) {
	root, err := os.OpenRoot(folder)
	if err != nil {
		return packedFolder{}, rootCause(err)
	}
	defer root.Close() //nolint:errcheck // opened for reading only
	around, err := readEnclosingIgnores(folder)
	if err != nil {
		return packedFolder{}, err
	}
	around.Files = root.FS()
	listing, err := workdir.List(around, limit)
	if err != nil {
		return packedFolder{}, err
	}
	archive, err := workdir.Pack(around.Files, listing, limit)
	if err != nil {
		return packedFolder{}, err
	}
	return packedFolder{upload: workload.NewUpload(archive.Digest, archive.Data), listing: listing}, nil
}

// readEnclosingIgnores reads the ignore rules of enclosing folders, if they belong to the same repository.
func readEnclosingIgnores(folder string) (workdir.Folder, error) {
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

// printFolderNotes prints what is sent of a folder, and what is not.
func (m *manifests) printFolderNotes(doc submission, folder string, sent packedFolder) {
	l := sent.listing
	say := func(text phrase.Text) { m.factory.IO.printErr("%s%s", doc.positionPrefix(), text) }
	verb := phrase.Textf("sending")
	if m.unsent {
		verb = phrase.Textf("would send")
	}
	var left phrase.Text
	if l.Ignored > 0 {
		left = phrase.Textf("; .gitignore or .dockerignore leaves out %d", l.Ignored)
	}
	packed := workdir.FormatBytes(int64(len(sent.upload.Data)))
	say(phrase.Textf("%s %s of %s, %s (%s compressed)%s", verb, countText(l.Files, "file"), folder, workdir.FormatBytes(l.Size), packed, left))
	if m.offline && len(sent.upload.Data) > inventory.DefaultWorkdirLimit {
		say(phrase.Textf("note: a cluster takes it only if its administrators allow more than %s", workdir.FormatBytes(inventory.DefaultWorkdirLimit)))
	}
	if len(l.Secret) > 0 {
		say(phrase.Textf("note: not sent, as it may hold passwords or keys: %s; a line !%s in .gitignore or .dockerignore sends it all the same",
			listFirst(l.Secret), l.Secret[0]))
	}
	if len(l.Outside) > 0 {
		say(phrase.Textf("note: sent as links that lead out of the folder, without what they lead to: %s", listFirst(l.Outside)))
	}
	if len(l.Special) > 0 {
		say(phrase.Textf("note: not sent, as neither file, folder nor link: %s", listFirst(l.Special)))
	}
}

// listFirst lists the first of several names.
func listFirst(all []string) phrase.Text {
	const most = 3
	if len(all) <= most {
		return phrase.Quote(strings.Join(all, ", "))
	}
	return phrase.Textf("%s and %d more", strings.Join(all[:most], ", "), len(all)-most)
}

// setWorkdir sets the folder of the command line in the YAML of a job.
func (m *manifests) setWorkdir(source string) (string, error) {
	if m.workdir == "" {
		return source, nil
	}
	return jobplan.SetField(source, "job.workdir", filepath.ToSlash(m.workdir))
}
