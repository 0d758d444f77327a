package workload

import "g8s.host/gpu-scheduler/pkg/phrase"

// formerHintText is the replacement for a key of the first gpuctl.
type formerHintText struct {
	says phrase.Text
	// name is the field that replaces the key in the same section; "" for none.
	name string
}

// formerKeys maps keys of the first gpuctl's documents, by path, to their replacement.
var formerKeys = map[string]formerHintText{
	"resources.accelerator-count":    {phrase.Textf("it is called \"gpu\""), "gpu"},
	"resources.accelerator":          {phrase.Textf("it is called \"gpu-type\""), "gpu-type"},
	"resources.accelerator-type":     {phrase.Textf("it is called \"gpu-type\""), "gpu-type"},
	"resources.gpu-memory":           {phrase.Textf("it is called \"gpu-share\""), "gpu-share"},
	"service.timeout":                {phrase.Textf("it is called \"startup-timeout\", and is how long the job may take until health-check answers"), "startup-timeout"},
	"job.epochs":                     {phrase.Textf("give it to the program, in environment.args"), ""},
	"job.batch-size":                 {phrase.Textf("give it to the program, in environment.args"), ""},
	"job.user":                       {phrase.Textf("who submits the job is noted by itself"), ""},
	"model":                          {phrase.Textf("mount the model with storage.workdirs, and name its path in environment.args"), ""},
	"output":                         {phrase.Textf("mount a folder for the output with storage.workdirs, and name its path in environment.args"), ""},
	"environment.image-pull-secrets": {phrase.Textf("it is called \"image-pull-secret\", and names one Secret"), "image-pull-secret"},
	"environment.working-dir":        {phrase.Textf("begin the command with a change of the folder: command: [sh, -c, \"cd /work && python train.py\"]"), ""},
	"storage.volumes":                {phrase.Textf("mounts are storage.workdirs, or sections with names of their own"), ""},
	"metadata.labels":                {phrase.Textf("labels of nodes are set with gpuctl label"), ""},
}

// formerHint returns the replacement hint for a key of the first gpuctl, and the field that replaces it; empty for other keys.
func formerHint(path, key string) (hint phrase.Text, name string) {
	for full, instead := range formerKeys {
		if section, name := splitPath(full); section == path && IsSpelling(key, name) {
			return phrase.Textf(" (%s)", instead.says), instead.name
		}
	}
	return nil, ""
}
