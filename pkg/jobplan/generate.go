package jobplan

import (
	"go.yaml.in/yaml/v3"

	"g8s.host/gpu-scheduler/pkg/workload"
)

// Named returns a document that has only a prefix of its job's name with the complete name, ending in suffix. The submitted and stored
// document is then like any other.
func Named(doc workload.Document, suffix string) (workload.Document, error) {
	name := doc.Job.GenerateName + suffix
	source, err := edit(doc.Source, func(root *yaml.Node) error {
		section := child(root, "job")
		for i := 0; i+1 < len(section.Content); i += 2 {
			key, value := section.Content[i], section.Content[i+1]
			if workload.Spells(key.Value, "generate-name") {
				key.Value = "name"
				return replace(value, name)
			}
		}
		return nil
	})
	if err != nil {
		return doc, err
	}
	job := *doc.Job
	job.Name, job.GenerateName = name, ""
	doc.Name, doc.Job, doc.Source = name, &job, source
	return doc, nil
}
