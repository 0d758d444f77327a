package workload

import (
	"cmp"
	"errors"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/distribution/reference"
	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/util/validation"

	"g8s.host/gpu-scheduler/pkg/phrase"
	"g8s.host/gpu-scheduler/pkg/spelling"
)

// scalarValue is a value that is one piece of text in YAML. The text is taken as written, so that a version 1.10 or a learning rate 2e-5 is not
// converted to another number. The error of parse continues a sentence after the quoted text: `is not ...`.
func scalarValue[T any](to *T, describe string, parse func(string) (T, error)) value {
	return value{describe: describe, schema: scalarSchema(describe), decode: func(d *decoder, node *yaml.Node, path string) {
		if node.Kind != yaml.ScalarNode {
			d.errorf(node, "%s must be one value (%s), not %s", path, describe, nodeWord(node))
			return
		}
		v, err := parse(node.Value)
		if err != nil {
			d.errorf(node, "%s: %q %v", path, truncateText(node.Value), err)
			return
		}
		*to = v
	}}
}

// optionalValue makes a scalar optional: the pointer stays nil if the field is absent.
func optionalValue[T any](to **T, describe string, parse func(string) (T, error)) value {
	return scalarValue(to, describe, func(s string) (*T, error) {
		v, err := parse(s)
		return &v, err
	})
}

// textList is a list of pieces of text.
func textList(to *[]string) value {
	return value{describe: "list of text", schema: listSchema(scalarSchema("text")), decode: func(d *decoder, node *yaml.Node, path string) {
		if node.Kind == yaml.ScalarNode {
			d.errorf(node, "%s must be a list, not %s: write [\"sh\", \"-c\", %q] to run it in a shell", path, nodeWord(node), truncateText(node.Value))
			return
		}
		if isEmpty(node) {
			d.warnf(node, "%s is empty and has no effect", path)
		}
		d.decodeList(node, path, func(_ int, entry *yaml.Node, path string) {
			var s string
			scalarValue(&s, "text", anyText).decode(d, entry, path)
			*to = append(*to, s)
		})
	}}
}

// oneOrList is a scalar, or a list of distinct ones up to a maximum length.
func oneOrList(to *[]string, most int, describe string, parse func(string) (string, error)) value {
	one := func(d *decoder, node *yaml.Node, path string) {
		var s string
		scalarValue(&s, describe, parse).decode(d, node, path)
		if s != "" && slices.Contains(*to, s) {
			d.errorf(node, "%s: %q is in the list already", path, s)
		}
		*to = append(*to, s)
	}
	return value{describe: describe + ", or a list of them", schema: oneOrListSchema(scalarSchema(describe)), decode: func(d *decoder, node *yaml.Node, path string) {
		switch {
		case node.Kind != yaml.SequenceNode:
			one(d, node, path)
		case len(node.Content) == 0:
			d.errorf(node, "%s is an empty list: leave it out to accept any", path)
		case len(node.Content) > most:
			d.errorf(node.Content[most], "%s has %d entries, and at most %d are allowed: leave it out to accept any",
				path, len(node.Content), most)
		default:
			d.decodeList(node, path, func(_ int, entry *yaml.Node, path string) { one(d, entry, path) })
		}
	}}
}

// anyText accepts text that can be shown to people, without characters that a terminal obeys or that change how text reads.
func anyText(s string) (string, error) {
	for _, r := range s {
		if IsControl(r) && r != '\n' && r != '\t' && r != '\r' {
			return "", phrase.Errorf("contains the control character %s: leave it out", fmt.Sprintf("%U", r))
		}
	}
	return s, nil
}

// IsControl reports whether a rune is a terminal control character (C0, DEL, C1) or sets the direction of text.
func IsControl(r rune) bool {
	return unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r)
}

// choiceValue is a scalar that is exactly one of the given words.
func choiceValue[T ~string](to *T, words ...T) value {
	all := make([]string, len(words))
	for i, w := range words {
		all[i] = string(w)
	}
	v := scalarValue(to, englishAlternatives(all), func(s string) (T, error) {
		if slices.Contains(all, s) {
			return T(s), nil
		}
		return "", phrase.Errorf("is not %s%s", joinAlternatives(all), spelling.DidYouMean(s, all))
	})
	v.words, v.schema = all, schema{"enum": all}
	return v
}

func parseBool(s string) (bool, error) {
	switch s {
	case "true":
		return true, nil
	case "false":
		return false, nil
	default:
		return false, phrase.Errorf("is not true or false")
	}
}

// wholeValue is a scalar that is a whole number from least to most.
func wholeValue[T int32 | int64](to *T, describe string, least, most T) value {
	v := scalarValue(to, describe, wholeNumber(least, most))
	v.schema = wholeSchema(int64(least), int64(most))
	return v
}

// optionalWhole is an optional whole number: the pointer stays nil if the field is absent.
func optionalWhole[T int32 | int64](to **T, describe string, least, most T) value {
	v := optionalValue(to, describe, wholeNumber(least, most))
	v.schema = wholeSchema(int64(least), int64(most))
	return v
}

// wholeNumber accepts decimal numbers from least to most.
func wholeNumber[T int32 | int64](least, most T) func(string) (T, error) {
	return func(s string) (T, error) {
		n, err := strconv.ParseInt(s, 10, 64)
		switch {
		case errors.Is(err, strconv.ErrRange):
			return 0, phrase.Errorf("is out of range: write %d to %d", least, most)
		case err != nil || strings.HasPrefix(s, "+") || (len(s) > 1 && s[0] == '0'):
			return 0, phrase.Errorf("is not a whole number")
		case n < int64(least) && least <= 1:
			return 0, phrase.Errorf("is less than %d", least)
		case n < int64(least) || n > int64(most):
			return 0, phrase.Errorf("is out of range: write %d to %d", least, most)
		}
		return T(n), nil
	}
}

var durationText = regexp.MustCompile(`^(?:(\d{1,5})d)?((?:\d{1,9}[hms])*)$`)

// maxDuration keeps durations within the int32 seconds of the Kubernetes API.
const maxDuration = 10 * 365 * 24 * time.Hour

// durationParser accepts durations such as 90s, 30m, 24h, 7d or 1d12h of at least the given length.
func durationParser(least time.Duration) func(string) (time.Duration, error) {
	return func(s string) (time.Duration, error) {
		parts := durationText.FindStringSubmatch(s)
		if parts == nil || s == "" {
			return 0, phrase.Errorf("is not a duration: write a number with its unit, such as 90s, 30m, 24h or 7d")
		}
		days, _ := strconv.Atoi("0" + parts[1])
		rest, err := time.ParseDuration("0s" + parts[2])
		total := time.Duration(days)*24*time.Hour + rest
		switch {
		case err != nil || total > maxDuration || total < 0:
			return 0, phrase.Errorf("is too long: write at most 3650d")
		case total < least:
			return 0, phrase.Errorf("is too short: write at least %gs", least.Seconds())
		}
		return total, nil
	}
}

// DurationText formats a duration in the notation of this YAML, to the second: 1d12h.
func DurationText(d time.Duration) string {
	var out strings.Builder
	for _, unit := range []struct {
		size time.Duration
		name string
	}{{24 * time.Hour, "d"}, {time.Hour, "h"}, {time.Minute, "m"}, {time.Second, "s"}} {
		if n := d / unit.size; n > 0 {
			fmt.Fprintf(&out, "%d%s", n, unit.name)
			d -= n * unit.size
		}
	}
	return cmp.Or(out.String(), "0s")
}

// durationWithin accepts a duration between two bounds.
func durationWithin(least, most time.Duration) func(string) (time.Duration, error) {
	return func(s string) (time.Duration, error) {
		total, err := durationParser(least)(s)
		if err == nil && total > most {
			return 0, phrase.Errorf("is too long: write at most %gh", most.Hours())
		}
		return total, err
	}
}

// labelValue accepts non-empty values of Kubernetes labels.
func labelValue(s string) (string, error) {
	if s == "" {
		return "", phrase.Errorf("is empty")
	}
	if len(validation.IsValidLabelValue(s)) == 0 {
		return s, nil
	}
	return "", phrase.Errorf("cannot be the value of a node label: use at most 63 letters, digits, '-', '_' and '.', "+
		"with a letter or digit at both ends%s", correctionHint(s, toLabelValue(s)))
}

// dnsLabel accepts pod and Service names up to a maximum length.
func dnsLabel(most int) func(string) (string, error) {
	return func(s string) (string, error) {
		switch {
		case s == "":
			return "", phrase.Errorf("is empty")
		case len(validation.IsDNS1123Label(s)) > 0 && len(s) <= validation.DNS1123LabelMaxLength:
			return "", phrase.Errorf("is not a valid name: use lower-case letters, digits and '-', with a letter or digit "+
				"at both ends%s", correctionHint(s, toDNSLabel(s, most)))
		case len(s) > most:
			return "", phrase.Errorf("is too long: it has %d characters, and at most %d are allowed%s",
				len([]rune(s)), most, correctionHint(s, toDNSLabel(s, most)))
		}
		return s, nil
	}
}

// namePrefix accepts a name prefix that leaves room for five more characters within the maximum length.
func namePrefix(most int) func(string) (string, error) {
	return func(s string) (string, error) {
		longest := most - len(PlaceholderSuffix)
		switch {
		case s == "":
			return "", phrase.Errorf("is empty")
		case len(s) > longest && len(validation.IsDNS1123Label(strings.Trim(s, "-"))) == 0:
			return "", phrase.Errorf("is too long: it has %d characters, and at most %d are allowed", len(s), longest)
		case len(validation.IsDNS1123Label(s+PlaceholderSuffix)) > 0:
			return "", phrase.Errorf("is not the beginning of a name: use lower-case letters, digits and '-', with a letter or digit first%s",
				correctionHint(s, toDNSLabel(s, longest)))
		}
		return s, nil
	}
}

// parseSubdomain accepts names of objects, such as secrets, claims and nodes.
func parseSubdomain(s string) (string, error) {
	if len(validation.IsDNS1123Subdomain(s)) > 0 {
		return "", phrase.Errorf("is not a valid name: use lower-case letters, digits, '-' and '.', " +
			"with a letter or digit at both ends")
	}
	return s, nil
}

// correctionHint formats a suggestion for an invalid name; empty if no name remains.
func correctionHint(wrong, right string) phrase.Text {
	if right == "" || right == wrong {
		return nil
	}
	return phrase.Textf(" (for example %q)", right)
}

var (
	notDNS   = regexp.MustCompile(`[^a-z0-9]+`)
	notLabel = regexp.MustCompile(`[^A-Za-z0-9._-]+`)
)

func toDNSLabel(s string, most int) string {
	s = strings.Trim(notDNS.ReplaceAllString(strings.ToLower(s), "-"), "-")
	return strings.Trim(s[:min(len(s), most)], "-")
}

func toLabelValue(s string) string {
	s = strings.Trim(notLabel.ReplaceAllString(s, "-"), "-_.")
	return strings.Trim(s[:min(len(s), validation.LabelValueMaxLength)], "-_.")
}

// CheckImage says why a text is not the name of a container image. The error continues a sentence after the text.
func CheckImage(name string) error {
	_, err := imageName(name)
	return err
}

// imageName accepts the name of a container image.
func imageName(s string) (string, error) {
	if s == "" {
		return "", phrase.Errorf("is empty")
	}
	if _, err := anyText(s); err != nil {
		return "", err // the library's error would contain it
	}
	if _, err := reference.ParseNormalizedNamed(s); err != nil {
		return "", phrase.Errorf("is not the name of an image: %w", err)
	}
	return s, nil
}

// absolutePath accepts a path from the root without steps upwards.
func absolutePath(s string) (string, error) {
	switch {
	case !path.IsAbs(s):
		return "", phrase.Errorf("is not an absolute path: begin it with /")
	case slices.Contains(strings.Split(s, "/"), ".."):
		return "", phrase.Errorf("must not contain \"..\"")
	case strings.ContainsFunc(s, IsControl):
		return "", phrase.Errorf("contains a control character")
	case len(s) > maxPath:
		return "", phrase.Errorf("is longer than %d characters", maxPath)
	}
	return s, nil
}

// maxPath is the maximum path length in Linux.
const maxPath = 4096

// mountPath accepts a path that a volume can be mounted at.
func mountPath(s string) (string, error) {
	switch p, err := absolutePath(s); {
	case err != nil:
		return "", err
	case path.Clean(p) == "/":
		return "", phrase.Errorf("cannot be mounted over: it would hide the whole image")
	case strings.Contains(p, ":"):
		return "", phrase.Errorf("must not contain a colon")
	default:
		return p, nil
	}
}
