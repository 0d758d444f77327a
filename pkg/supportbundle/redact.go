package supportbundle

import (
	"regexp"
	"slices"
	"strings"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/doctor"
)

// removed replaces anything that may be secret.
const removed = "REMOVED"

// secretName matches names of secrets.
const secretName = `(?i:[\w.-]*(?:passw(?:or)?d|passphrase|secret|token|credential|signature|` +
	`(?:api|access|account|shared|private|storage|license|wandb)[_-]?key)[\w.-]*|[\w.-]*[_.-]pass|\bpass|[\w.-]*pwd|\bsig)`

// secrets match credentials anywhere in a text. The first group is kept.
var secrets = []*regexp.Regexp{
	regexp.MustCompile(`()-----BEGIN [A-Z ]*PRIVATE KEY-----(?s:.*?)(?:-----END [A-Z ]*PRIVATE KEY-----|\z)`),
	regexp.MustCompile(`()\beyJ[\w-]{8,}\.[\w-]+\.[\w-]*`), // a JSON Web Token
	regexp.MustCompile(`((?i:\b(?:bearer|basic)\s+))[\w+/=.~-]{8,}`),
	regexp.MustCompile(`(://)[^/\s@"']+@`), // a user and a password in a URL
	regexp.MustCompile(`()\b(?:AKIA|ASIA)[0-9A-Z]{16}\b|\b(?:gh[opsu]_|github_pat_|glpat-|hf_|sk-|xox[abp]-)[\w-]{16,}`),
	regexp.MustCompile(`(` + secretName + `\\?["']?\s*[=:]\s*\\?["'])[^"'\\]+`), // the complete quoted text
	regexp.MustCompile(`(` + secretName + `\\?["']?\s*[=:]\s*)[^\s"'&\\]+`),
	regexp.MustCompile(`((?:^|[\s"'\[,])--?` + secretName + `\\?["']?,?\s+\\?["']?)[^\s"'\\]+`), // a flag in a command line
	regexp.MustCompile(`((?i:\blogin\s+))[0-9A-Fa-f]{16,}\b`),
	regexp.MustCompile(`(\bmysql\w*\s(?:[^|;&\n]*?\s)?-p)[^\s"'\\]+`),
	regexp.MustCompile(`(\bcurl\s(?:[^|;&\n]*?\s)?(?:-u|--user)[\s=]*)[^\s\\]+`),
	regexp.MustCompile(`(\bexec: \\?")[^"\\]+`), // the command of a container that did not start, in a kubelet message
}

// RedactText removes possible secrets from a text.
func RedactText(text string) string {
	for _, secret := range secrets {
		text = secret.ReplaceAllString(text, "${1}"+removed)
	}
	return text
}

// secretFlag matches a flag whose value is the next argument.
var secretFlag = regexp.MustCompile(`^--?` + secretName + `$`)

// RedactObject removes possible secrets from a Kubernetes object, or a list of them, decoded from JSON: all values of variables and headers, all
// annotations that are not ours, data of Secrets, and what [RedactText] finds in any other text. Unless the object is [doctor.Ours], it also removes
// all commands and arguments, and the output of containers: no pattern covers all the ways to write a password there. server is the result of
// [doctor.ServerNamespace]. It modifies value.
func RedactObject(server string, value any) any {
	namespace, name := objectName(value)
	return cleaner{ours: doctor.IsOurs(server, namespace, name)}.cleanValue(value)
}

// cleaner removes secrets from one object.
type cleaner struct {
	// ours says that an administrator wrote the object to run one of our programs.
	ours bool
}

func (c cleaner) cleanValue(value any) any {
	switch value := value.(type) {
	case map[string]any:
		for key, field := range value {
			value[key] = c.cleanField(value, key, field)
		}
		return value
	case []any:
		for i := range value {
			value[i] = c.cleanValue(value[i])
		}
		return value
	case string:
		return RedactText(value)
	}
	return value
}

func (c cleaner) cleanField(of map[string]any, key string, field any) any {
	switch key {
	case "managedFields":
		return nil
	case "env", "httpHeaders":
		return c.cleanVariables(field)
	case "volumeAttributes":
		return removed
	case "annotations":
		return c.cleanAnnotations(field)
	case "command", "args":
		return c.cleanArguments(field)
	case "message":
		if !c.ours && mayBePrinted(of) {
			return removed
		}
	case "data", "stringData", "binaryData":
		if of["kind"] != "ConfigMap" { // only our ConfigMaps are read
			return removed
		}
	}
	return c.cleanValue(field)
}

// relayed are the reasons of events whose message is the output of a probe or a hook.
var relayed = []string{"Unhealthy", "ProbeWarning", "FailedPostStartHook", "FailedPreStopHook"}

// mayBePrinted reports whether the message of an object may be container output: about its exit, or from its probes.
func mayBePrinted(of map[string]any) bool {
	_, ended := of["exitCode"]
	reason, _ := of["reason"].(string)
	return ended || slices.Contains(relayed, reason)
}

func (c cleaner) cleanVariables(field any) any {
	list, ok := field.([]any)
	if !ok {
		return c.cleanValue(field)
	}
	for _, entry := range list {
		if variable, ok := entry.(map[string]any); ok && variable["value"] != nil {
			variable["value"] = removed
		}
	}
	return list
}

// prefix is the name prefix of our annotations.
const prefix = names.GroupName + "/"

// cleanAnnotations keeps the values of our own annotations, except for those with free text of users.
func (c cleaner) cleanAnnotations(field any) any {
	values, ok := field.(map[string]any)
	if !ok {
		return c.cleanValue(field)
	}
	for key, value := range values {
		ours := strings.HasPrefix(key, prefix) && key != names.AnnotationSubmitted && key != names.AnnotationDescription
		if text, ok := value.(string); ok && ours {
			values[key] = RedactText(text)
			continue
		}
		values[key] = removed
	}
	return values
}

// cleanArguments keeps the arguments of our programs, without secrets.
func (c cleaner) cleanArguments(field any) any {
	if !c.ours {
		return removed
	}
	list, ok := field.([]any)
	if !ok {
		return c.cleanValue(field)
	}
	hidden := false
	for i, entry := range list {
		text, ok := entry.(string)
		switch {
		case !ok:
		case hidden:
			list[i] = removed
		default:
			list[i] = RedactText(text)
		}
		hidden = ok && secretFlag.MatchString(text)
	}
	return list
}
