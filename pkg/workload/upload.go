package workload

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"g8s.host/gpu-scheduler/pkg/phrase"
)

// WorkdirPath is the path of the submitted folder in the container, and the program's working directory.
const WorkdirPath = "/workdir"

// UploadPart is the maximum size of one part of an upload in bytes: the capacity of a ConfigMap, minus its other content.
const UploadPart = 1000 << 10

// Upload is the archive of the folder that job.workdir names, as stored in the cluster.
type Upload struct {
	// Digest is the hexadecimal digest of its content.
	Digest string
	// Parts is the number of parts in which it is stored.
	Parts int
	// Data is the archive; nil if only the cluster has it.
	Data []byte
}

// NewUpload returns the upload of an archive.
func NewUpload(digest string, data []byte) *Upload {
	return &Upload{Digest: digest, Parts: (len(data) + UploadPart - 1) / UploadPart, Data: data}
}

// uploadText matches the text that [Upload.String] returns.
var uploadText = regexp.MustCompile(`^([0-9a-f]{64})/([1-9][0-9]{0,2})$`)

// ParseUpload parses the text that [Upload.String] returned; nil if it is invalid.
func ParseUpload(text string) *Upload {
	found := uploadText.FindStringSubmatch(text)
	if found == nil {
		return nil
	}
	parts, _ := strconv.Atoi(found[2]) // three digits at most
	return &Upload{Digest: found[1], Parts: parts}
}

// String returns the upload without its data, as one word.
func (u *Upload) String() string { return fmt.Sprintf("%s/%d", u.Digest, u.Parts) }

// Part returns the data of a part, from 0; nil if only the cluster has it.
func (u *Upload) Part(i int) []byte {
	if u.Data == nil {
		return nil
	}
	return u.Data[i*UploadPart : min(len(u.Data), (i+1)*UploadPart)]
}

// WithoutUpload returns the document without its folder, for callers that only determine where its job would run.
func (d Document) WithoutUpload() Document {
	if d.Job != nil {
		job := *d.Job
		job.Workdir = ""
		d.Job = &job
	}
	return d
}

// localFolder accepts a folder of the submitting machine.
func localFolder(s string) (string, error) {
	if strings.TrimSpace(s) == "" || strings.ContainsAny(s, "\x00\n") {
		return "", phrase.Errorf("is no folder: write . for the one that the file is in")
	}
	return s, nil
}

// checkLocalFolder refuses another mount at the path of the submitted folder.
func checkLocalFolder(d *decoder, j *Job, mounted map[string]int) {
	if j.Workdir == "" {
		return
	}
	if line, ok := mounted[WorkdirPath]; ok {
		d.errorf(d.valueAt("job.workdir"), "job.workdir is unpacked at %s, and line %d mounts something else there", WorkdirPath, line)
	}
	if slices.ContainsFunc(j.Storage.Volumes, func(v Volume) bool { return v.Name == WorkdirVolume || v.Name == UploadVolume }) {
		d.errorf(d.valueAt("job.workdir"), "storage.%s and storage.%s are volumes of job.workdir: give yours another name", WorkdirVolume, UploadVolume)
	}
}

// The volumes of a job with a submitted folder: the folder, and the archive.
const (
	WorkdirVolume = "workdir"
	UploadVolume  = "workdir-upload"
)
