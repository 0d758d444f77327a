package workload

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"g8s.host/gpu-scheduler/pkg/phrase"
)

// WorkdirPath is where a job finds the folder that was sent with it, and where its program starts.
const WorkdirPath = "/workdir"

// UploadPart is the most bytes of one part of an upload: what a ConfigMap holds, less what else is in it.
const UploadPart = 1000 << 10

// Upload is the archive of the folder that job.workdir names, as it is kept in the cluster.
type Upload struct {
	// Digest tells its content, in hexadecimal.
	Digest string
	// Parts is in how many parts it is kept.
	Parts int
	// Data is the archive; nil where only the cluster has it.
	Data []byte
}

// NewUpload is that of an archive.
func NewUpload(digest string, data []byte) *Upload {
	return &Upload{Digest: digest, Parts: (len(data) + UploadPart - 1) / UploadPart, Data: data}
}

// uploadText is an upload as [Upload.String] writes it.
var uploadText = regexp.MustCompile(`^([0-9a-f]{64})/([1-9][0-9]{0,2})$`)

// ParseUpload reads what [Upload.String] wrote; nil if it is nothing of it.
func ParseUpload(text string) *Upload {
	found := uploadText.FindStringSubmatch(text)
	if found == nil {
		return nil
	}
	parts, _ := strconv.Atoi(found[2]) // it has three digits at most
	return &Upload{Digest: found[1], Parts: parts}
}

// String is the upload without its data, in one word.
func (u *Upload) String() string { return fmt.Sprintf("%s/%d", u.Digest, u.Parts) }

// Part is the data of a part, from 0; nil where only the cluster has it.
func (u *Upload) Part(i int) []byte {
	if u.Data == nil {
		return nil
	}
	return u.Data[i*UploadPart : min(len(u.Data), (i+1)*UploadPart)]
}

// Unsent is the document as if nothing were sent with it, for those who only ask where its job would run.
func (d Document) Unsent() Document {
	if d.Job != nil {
		job := *d.Job
		job.Workdir = ""
		d.Job = &job
	}
	return d
}

// localFolder is a folder of the machine on which a job is submitted.
func localFolder(s string) (string, error) {
	if strings.TrimSpace(s) == "" || strings.ContainsAny(s, "\x00\n") {
		return "", phrase.Errorf("is no folder: write . for the one that the file is in")
	}
	return s, nil
}

// checkLocalFolder refuses a second thing in the place of what is sent.
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

// The volumes of a job with a folder that was sent: where it is unpacked, and the archive.
const (
	WorkdirVolume = "workdir"
	UploadVolume  = "workdir-upload"
)
