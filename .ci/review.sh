#!/usr/bin/env bash
# The script of docs/how-to/review-in-ci.md: reviews every stack of BASE and HEAD and writes review.md.
set -eu
base=$(git merge-base "$BASE" "$HEAD")
for revision in "$base" "$HEAD"; do
    git ls-tree -z --name-only "$revision" stacks/
done | sed -zn 's|^stacks/Pulumi\.\(.*\)\.yaml$|\1|p' | sort -zu > stacks.list
code=0
while IFS= read -r -d '' stack; do
    ended=0
    stampworks review --base="$base" --head="$HEAD" --stack="$stack" >> all.md || ended=$?
    case $ended in 0 | 3) ;; *) code=1 ;; esac
    echo >> all.md
done < stacks.list
# a comment holds 65,536 characters; the last line may have been cut, and goes
if [ "$(wc -c < all.md)" -gt 60000 ]; then head -c 60000 all.md | sed '$d'; else cat all.md; fi > review.md
exit "$code"
