{{- /*
The certificate that the chart makes itself, computed once for all templates and kept in .Values.made: keyPair
(Secret of type kubernetes.io/tls), authority (with its key, which no pod sees) and bundle (PEM of all authorities to
trust). What is in the cluster is kept while it serves; its age is in annotations, because templates can't read
certificates. An authority outlives whatever it signs; after a change of authority the former one stays trusted, so
that nothing fails while pods still show the former certificate.
*/ -}}
{{- define "gpu-autoscaler.makeCertificate" -}}
{{- if not (hasKey .Values "made") -}}
{{- $fullname := include "gpu-autoscaler.fullname" . -}}
{{- $days := .Values.certificates.selfSigned -}}
{{- $dnsNames := include "gpu-autoscaler.dnsNames" . -}}
{{- $now := now | unixEpoch | int64 -}}
{{- $day := int64 86400 -}}
{{- $authority := lookup "v1" "Secret" .Release.Namespace (printf "%s-ca" $fullname) | default dict -}}
{{- $present := lookup "v1" "Secret" .Release.Namespace (printf "%s-tls" $fullname) | default dict -}}
{{- $authorityNotes := dig "metadata" "annotations" dict $authority -}}
{{- $notes := dig "metadata" "annotations" dict $present -}}
{{- $crt := dig "data" "ca.crt" "" $authority -}}
{{- $key := dig "data" "ca.key" "" $authority -}}
{{- $former := dig "data" "former.crt" "" $authority | b64dec -}}
{{- $ends := get $authorityNotes "gpu-autoscaler.io/ends" | default "0" | int64 -}}
{{- $ca := dict -}}
{{- $renewed := false -}}
{{- if and $crt $key (gt $ends (add $now (mul $day (int64 $days.validityDays)))) -}}
{{- $ca = buildCustomCert $crt $key -}}
{{- else -}}
{{- $former = $crt | b64dec -}}
{{- $renewed = true -}}
{{- $ca = genCA (printf "%s-ca-%d" $fullname $now) (int $days.caValidityDays) -}}
{{- $ends = add $now (mul $day (int64 $days.caValidityDays)) -}}
{{- end -}}
{{- $made := dict "bundle" (printf "%s%s" $ca.Cert $former) -}}
{{- $_ := set $made "authority" (dict "ca.crt" $ca.Cert "ca.key" $ca.Key "former.crt" $former) -}}
{{- $_ := set $made "authorityNotes" (dict "gpu-autoscaler.io/ends" (toString $ends)) -}}
{{- $renews := get $notes "gpu-autoscaler.io/renews" | default "0" | int64 -}}
{{- $same := eq (get $notes "gpu-autoscaler.io/names") $dnsNames -}}
{{- if and (dig "data" "tls.key" "" $present) $same (gt $renews $now) (not $renewed) -}}
{{- $_ := set $made "crt" (index $present.data "tls.crt" | b64dec) -}}
{{- $_ := set $made "key" (index $present.data "tls.key" | b64dec) -}}
{{- else -}}
{{- $pair := genSignedCert (printf "%s.%s.svc" $fullname .Release.Namespace) nil (fromJsonArray $dnsNames) (int $days.validityDays) $ca -}}
{{- $renews = add $now (div (mul $day (int64 $days.validityDays)) 2) -}}
{{- $_ := set $made "crt" $pair.Cert -}}
{{- $_ := set $made "key" $pair.Key -}}
{{- end -}}
{{- $_ := set $made "notes" (dict "gpu-autoscaler.io/renews" (toString $renews) "gpu-autoscaler.io/names" $dnsNames) -}}
{{- $_ := set .Values "made" $made -}}
{{- end -}}
{{- end -}}

{{- /* PEM of the authorities that the API server is to trust; "" where cert-manager fills them in. */ -}}
{{- define "gpu-autoscaler.caBundle" -}}
{{- if eq .Values.certificates.source "selfSigned" -}}
{{- include "gpu-autoscaler.makeCertificate" . -}}
{{- .Values.made.bundle -}}
{{- else if eq .Values.certificates.source "secret" -}}
{{- if .Values.certificates.secret.caBundle -}}
{{- .Values.certificates.secret.caBundle -}}
{{- else -}}
{{- $name := .Values.certificates.secret.name -}}
{{- $found := dig "data" "ca.crt" "" (lookup "v1" "Secret" .Release.Namespace $name | default dict) -}}
{{- if not $found -}}
{{- fail (printf "certificates.secret.caBundle: give the authority's certificate (PEM); Secret %s/%s has no ca.crt, or the cluster was not asked" .Release.Namespace $name) -}}
{{- end -}}
{{- $found | b64dec -}}
{{- end -}}
{{- end -}}
{{- end -}}
