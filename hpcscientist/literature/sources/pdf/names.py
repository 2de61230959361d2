"""The names that papers give to their parts, in lower case, in the languages met most often."""

from __future__ import annotations


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split("|"))


ABSTRACTS = _names(
    "abstract|summary|zusammenfassung|kurzfassung|résumé|resumen|resumo|riassunto|sommario|"
    "аннотация|摘要|要旨|概要|초록|özet|samenvatting|sammanfattning"
)
REFERENCES = _names(
    "references|reference|bibliography|literature cited|works cited|references and notes|"
    "literatur|literaturverzeichnis|quellenverzeichnis|références|bibliographie|referencias|"
    "bibliografía|referências|bibliografia|riferimenti bibliografici|список литературы|литература|"
    "参考文献|參考文獻|참고문헌|kaynakça|kaynaklar|literatuur|referenser"
)
ASIDES = _names(
    "keywords|key words|index terms|ccs concepts|general terms|acm reference format|contents|"
    "table of contents|inhaltsverzeichnis|list of figures|list of tables|mots-clés|palabras clave|"
    "schlüsselwörter|schlagwörter|ключевые слова|关键词|关键字"
)
SECTIONS = _names(
    "introduction|background|related work|related works|preliminaries|methods|method|methodology|"
    "materials and methods|experiments|experimental setup|results|results and discussion|"
    "discussion|evaluation|limitations|conclusion|conclusions|conclusion and future work|"
    "acknowledgements|acknowledgments|acknowledgement|acknowledgment|appendix|appendices|"
    "supplementary material|ethics statement|broader impact|reproducibility statement|"
    "einleitung|grundlagen|methode|methoden|ergebnisse|diskussion|fazit|danksagung|anhang|"
    "méthodes|résultats|remerciements|annexe|introducción|métodos|resultados|"
    "discusión|conclusiones|agradecimientos|введение|методы|результаты|заключение|"
    "引言|绪论|方法|实验|结果|讨论|结论|致谢"
)
INTRODUCTIONS = _names("introduction|einleitung|introducción|введение|引言|绪论")
